#include "plan/compat_layers.hpp"

#include <algorithm>

namespace muster::plan {
namespace {

using spec::ModelShape;

// The layers' modules, ascending.
std::vector<std::size_t> find_layers(const ModelShape& shape, const CompatSizes& sizes) {
  std::vector<std::size_t> layers;
  for (std::size_t i = 1; i < shape.modules.size();) {
    const bool is_layer = sizes.is_whole[i] || shape.modules[i].end == i + 1;
    if (is_layer) layers.push_back(i);
    i = is_layer ? shape.modules[i].end : i + 1;
  }
  return layers;
}

}  // namespace

LargestLayer::LargestLayer(const ModelShape& shape, const CompatSizes& sizes) : shape_(shape) {
  const std::vector<std::size_t> layers = find_layers(shape, sizes);
  for (const std::size_t layer : layers) sizes_.push_back(sizes.modules[layer]);
  std::sort(sizes_.begin(), sizes_.end());
  sizes_.erase(std::unique(sizes_.begin(), sizes_.end()), sizes_.end());

  waiting_.assign(sizes_.size(), 0);
  off_list_.assign(layers.size(), 0);
  layers_before_.assign(shape.modules.size() + 1, 0);
  for (const std::size_t layer : layers) {
    const auto found = std::lower_bound(sizes_.begin(), sizes_.end(), sizes.modules[layer]);
    size_of_.push_back(static_cast<std::size_t>(found - sizes_.begin()));
    ++waiting_[size_of_.back()];
    layers_before_[layer + 1] = 1;
  }
  for (std::size_t i = 1; i < layers_before_.size(); ++i) layers_before_[i] += layers_before_[i - 1];
  if (!sizes_.empty()) top_ = sizes_.size() - 1;
  look_anew();

  std::vector<Entry> tensors;
  for (const bool parameters : {true, false})
    for (const spec::TensorId id : own_tensors(shape, spec::ModuleId{}, parameters))
      tensors.push_back(entry_of(shape, id));
  for (const Entry tensor : tensors) {
    if (sizes.of(tensor) > size_) {
      size_ = sizes.of(tensor);
      listed_ = 0;
      listed_size_ = sizes_.size();
      listed_tensors_.clear();
    }
    if (sizes.of(tensor) == size_) listed_tensors_.push_back(tensor);
  }
}

LargestLayer::Range LargestLayer::layers_below(Entry entry) const {
  if (number(entry) >= shape_.modules.size()) return {};
  return {layers_before_[number(entry)], layers_before_[shape_.modules[number(entry)].end]};
}

void LargestLayer::take(Entry entry) {
  std::erase(listed_tensors_, entry);
  const Range range = layers_below(entry);
  for (std::size_t layer = range.begin; layer < range.end; ++layer) {
    --waiting_[size_of_[layer]];
    if (size_of_[layer] != listed_size_ || off_list_[layer] == look_) continue;
    off_list_[layer] = look_;
    --listed_;
  }
  if (listed_ > 0 || !listed_tensors_.empty()) return;
  look_anew();
  for (std::size_t layer = range.begin; layer < range.end; ++layer) off_list_[layer] = look_;
}

void LargestLayer::give_back(Entry entry) {
  const Range range = layers_below(entry);
  for (std::size_t layer = range.begin; layer < range.end; ++layer) {
    ++waiting_[size_of_[layer]];
    top_ = std::max(top_, size_of_[layer]);
  }
}

void LargestLayer::remove(Entry entry) {
  const Range range = layers_below(entry);
  for (std::size_t layer = range.begin; layer < range.end; ++layer) --waiting_[size_of_[layer]];
}

void LargestLayer::look_anew() {
  ++look_;
  listed_tensors_.clear();
  listed_size_ = sizes_.size();
  listed_ = 0;
  size_ = 0;
  if (sizes_.empty()) return;
  while (top_ > 0 && waiting_[top_] == 0) --top_;
  if (waiting_[top_] == 0) return;
  listed_size_ = top_;
  listed_ = waiting_[top_];
  size_ = sizes_[top_];
}

}  // namespace muster::plan
