// The variable "loop".
#pragma once

#include <memory>
#include <vector>

#include "chat/object.hpp"

namespace muster::chat {

class LoopObject : public Object, public std::enable_shared_from_this<LoopObject> {
 public:
  explicit LoopObject(std::vector<Value> elements) : elements_(std::move(elements)) {}
  std::string shown() const override;
  std::string_view type() const override { return "LoopContext"; }
  Value attribute(Evaluation& evaluation, std::string_view name) const override;
  void go_to(std::size_t index) { index_ = index; }
  std::size_t index() const { return index_; }
  // Whether the values differ from those of the last call.
  bool changed(const std::vector<Value>& values);

 private:
  std::vector<Value> elements_;
  std::size_t index_ = 0;
  std::vector<Value> last_changed_;
  bool has_changed_ = false;
};

}  // namespace muster::chat
