// Weights as bitsandbytes holds them: codes of 8 bits with a scale for each row, or of 4 bits with a scale for each run of
// elements, where the scales may be codes of 8 bits themselves.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>

#include "checkpoint/quantized/matrix_decoder.hpp"
#include "json/json_text.hpp"
#include "spec/model/quantized/quantized_methods.hpp"

namespace muster::checkpoint {
namespace {

using spec::PackedCode;
using spec::QuantizedMatrix;

using CodeTable = std::array<float, 16>;
constexpr CodeTable nf4_table{
    std::bit_cast<float>(0xbf800000), std::bit_cast<float>(0xbf3239b1), std::bit_cast<float>(0xbf066b30),
    std::bit_cast<float>(0xbeca32a0), std::bit_cast<float>(0xbe91a24d), std::bit_cast<float>(0xbe3d353f),
    std::bit_cast<float>(0xbdba7871), std::bit_cast<float>(0x00000000), std::bit_cast<float>(0x3da2faff),
    std::bit_cast<float>(0x3e24cae3), std::bit_cast<float>(0x3e7c04dd), std::bit_cast<float>(0x3ead033a),
    std::bit_cast<float>(0x3ee1a4b8), std::bit_cast<float>(0x3f1007ab), std::bit_cast<float>(0x3f3913b3),
    std::bit_cast<float>(0x3f800000)};
constexpr CodeTable fp4_table{0.0F,  1.0F / 192,  2.0F / 3,  1.0F,  1.0F / 3,  1.0F / 2,  1.0F / 6,  1.0F / 4,
                              0.0F,  -1.0F / 192, -2.0F / 3, -1.0F, -1.0F / 3, -1.0F / 2, -1.0F / 6, -1.0F / 4};

constexpr std::uint64_t longest_state = 1 << 16;
constexpr std::int64_t longest_run = 4096;

// The scales of a matrix, where they are codes: map[code] * scale of its run + offset.
struct CodedScales {
  std::int64_t run = 256;
  float offset = 0;
  std::array<float, 256> map{};
};

struct MatrixState {
  spec::WeightPacking packing;
  std::optional<CodedScales> scales;
};

std::int64_t elements_of(const SafetensorsSource& files, const std::string& name) {
  return files.find(name)->dimensions.elements();
}

// Reads the state of one matrix, which others wrote as JSON, and compares it with the parts that are there.
class StateReader {
 public:
  StateReader(const SafetensorsSource& files, const QuantizedMatrix& matrix) : files_(files), matrix_(matrix) {}

  Result<MatrixState> eight_bits() const {
    const std::string format = matrix_.part("weight_format");
    std::array<std::byte, 1> value{};
    if (files_.find(format) != nullptr) {
      if (auto read = files_.read_bytes(format, 0, value); !read) return read.error();
      if (value[0] != std::byte{0})
        return wrong_part(matrix_, "weight_format",
                          fmt::format("is {}, an order of a GPU's; 0, rows, is the one that is read",
                                      std::to_integer<int>(value[0])));
    }
    return MatrixState{{.code = PackedCode::int8}, std::nullopt};
  }

  Result<MatrixState> four_bits() {
    const bool nf4 = files_.find(matrix_.part(spec::state_part(PackedCode::nf4))) != nullptr;
    MatrixState state{{.code = nf4 ? PackedCode::nf4 : PackedCode::fp4}, std::nullopt};
    word_ = spec::state_part(state.packing.code);
    const auto text = read_text();
    if (!text) return text.error();
    const auto object = parse_json_object(*text, matrix_.part(word_));
    if (!object) return object.error();
    const bool nested = files_.find(matrix_.part("weight.nested_absmax")) != nullptr;
    if (object->contains("nested_blocksize") != nested)
      return wrong(nested ? "says nothing of nested_absmax, which is there" : "speaks of nested_absmax, which is not there");
    if (auto read = take_numbers(*object, state); !read) return read.error();
    if (auto same = check_table(nf4 ? nf4_table : fp4_table); !same) return same.error();
    if (nested)
      if (auto read = take_nested(*object, state); !read) return read.error();
    return state;
  }

 private:
  Error wrong(std::string_view what) const { return wrong_part(matrix_, word_, what); }

  Result<std::string> read_text() const {
    const std::string name = matrix_.part(word_);
    const std::uint64_t size = files_.find(name)->stored_bytes;
    if (size > longest_state) return wrong(fmt::format("has {} bytes, and {} are the most", size, longest_state));
    std::string text(size, '\0');
    if (auto read = files_.read_bytes(name, 0, std::as_writable_bytes(std::span(text))); !read) return read.error();
    return text;
  }

  // The length of runs: a power of two.
  Result<std::int64_t> run_in(const nlohmann::json& object, const char* key) const {
    const auto entry = object.find(key);
    const bool whole = entry != object.end() && entry->is_number_unsigned();
    const std::uint64_t run = whole ? entry->get<std::uint64_t>() : 0;
    if (run >= 2 && run <= longest_run && std::has_single_bit(run)) return static_cast<std::int64_t>(run);
    return wrong(fmt::format("has {} as its {}, which is not a power of two from 2 to {}",
                             entry == object.end() ? "nothing" : shown(*entry), key, longest_run));
  }

  Result<void> check_count(std::string_view word, std::int64_t count) const {
    const TensorEntry& entry = *files_.find(matrix_.part(word));
    if (entry.dimensions.rank == 1 && entry.dimensions.sizes[0] == count) return {};
    return wrong_part(matrix_, word,
                      fmt::format("has {} scales, and the state asks for [{}]", entry.dimensions.elements(), count));
  }

  Result<void> take_numbers(const nlohmann::json& object, MatrixState& state) const {
    const nlohmann::json sizes{matrix_.rows, matrix_.columns};
    const auto shape = object.find("shape");
    if (shape == object.end() || *shape != sizes)
      return wrong(fmt::format("says that the weight is {}, and the model asks for {}",
                               shape == object.end() ? "of no shape" : shape->dump(), sizes.dump()));
    const auto kind = object.find("quant_type");
    const std::string_view wanted = state.packing.code == PackedCode::nf4 ? "nf4" : "fp4";
    if (kind == object.end() || *kind != wanted)
      return wrong(fmt::format("says that the codes are {}", kind == object.end() ? "of no kind" : shown(*kind)));
    const auto run = run_in(object, "blocksize");
    if (!run) return run.error();
    state.packing.run = *run;
    return check_count("weight.absmax", spec::divided_up(matrix_.rows * matrix_.columns, *run));
  }

  // bitsandbytes computes with the tables it knows, whatever the file says.
  Result<void> check_table(const CodeTable& table) const {
    CodeTable held{};
    if (auto read = files_.read_bytes(matrix_.part("weight.quant_map"), 0, std::as_writable_bytes(std::span(held))); !read)
      return read;
    for (std::size_t i = 0; i < held.size(); ++i)
      if (!(std::abs(held[i] - table[i]) <= 1e-6F))
        return wrong_part(matrix_, "weight.quant_map",
                          fmt::format("has {} for the code {}, which stands for {}", held[i], i, table[i]));
    return {};
  }

  Result<void> take_nested(const nlohmann::json& object, MatrixState& state) const {
    CodedScales scales;
    const auto run = run_in(object, "nested_blocksize");
    if (!run) return run.error();
    scales.run = *run;
    const auto type = object.find("nested_dtype");
    if (type == object.end() || *type != "float32")
      return wrong(fmt::format("has {} as its nested_dtype, which must be float32",
                               type == object.end() ? "nothing" : shown(*type)));
    const auto offset = object.find("nested_offset");
    scales.offset = offset != object.end() && offset->is_number() ? static_cast<float>(offset->get<double>()) : NAN;
    if (!std::isfinite(scales.offset))
      return wrong(fmt::format("has {} as its nested_offset", offset == object.end() ? "nothing" : shown(*offset)));
    const std::int64_t runs = elements_of(files_, matrix_.part("weight.absmax"));
    if (auto counted = check_count("weight.nested_absmax", spec::divided_up(runs, *run)); !counted) return counted;
    const std::string map = matrix_.part("weight.nested_quant_map");
    if (auto read = files_.read_bytes(map, 0, std::as_writable_bytes(std::span(scales.map))); !read) return read;
    if (!std::ranges::all_of(scales.map, [](float number) { return std::abs(number) <= 1; }))
      return wrong_part(matrix_, "weight.nested_quant_map", "has numbers that are not from -1 to 1");
    state.packing.double_quantized = true;
    state.scales = scales;
    return {};
  }

  const SafetensorsSource& files_;
  const QuantizedMatrix& matrix_;
  std::string word_;
};

class BitsAndBytesDecoder final : public MatrixDecoder {
 public:
  BitsAndBytesDecoder(const SafetensorsSource& files, const Matrices& matrices, std::vector<MatrixState> states)
      : files_(files), matrices_(matrices), states_(std::move(states)) {}

  std::string_view stored_as(std::size_t matrix) const override {
    switch (states_[matrix].packing.code) {
      case PackedCode::int8:
        return "int8";
      case PackedCode::nf4:
        return "nf4";
      case PackedCode::fp4:
        return "fp4";
    }
    return {};
  }

  Result<void> decode(std::size_t matrix, const MatrixTile& tile, std::span<float> numbers) const override {
    if (states_[matrix].packing.code == PackedCode::int8) return decode_rows(matrix, tile, numbers);
    const std::int64_t columns = matrices_[matrix].columns;
    if (tile.columns == columns) return decode_run(matrix, tile.first_row * columns, numbers);
    for (std::int64_t row = tile.first_row; !numbers.empty(); ++row) {
      const auto line = static_cast<std::size_t>(tile.columns);
      if (auto done = decode_run(matrix, row * columns + tile.first_column, numbers.first(line)); !done) return done;
      numbers = numbers.subspan(line);
    }
    return {};
  }

  std::optional<PackedTensor> packed(std::size_t matrix) const override {
    const spec::WeightPacking& packing = states_[matrix].packing;
    const auto [rows, columns] = std::pair(matrices_[matrix].rows, matrices_[matrix].columns);
    if (packing.bits() == 4 && columns % packing.run != 0) return std::nullopt;
    return PackedTensor{packing, rows, columns};
  }

  Result<void> read_packed(std::size_t matrix, std::int64_t first_row, std::int64_t rows, std::span<std::byte> codes,
                           std::span<float> scales) const override {
    const PackedTensor form = *packed(matrix);
    const std::int64_t first_code = first_row * form.code_bytes_per_row();
    if (auto read = files_.read_bytes(part(matrix, "weight"), static_cast<std::uint64_t>(first_code), codes); !read)
      return read;
    if (form.packing.code == PackedCode::int8) return read_row_scales(matrix, first_row, rows, scales);
    return read_run_scales(matrix, first_row * form.scales_per_row(), scales);
  }

 private:
  std::string part(std::size_t matrix, std::string_view word) const { return matrices_[matrix].part(word); }

  Result<void> read_row_scales(std::size_t matrix, std::int64_t first_row, std::int64_t rows,
                               std::span<float> scales) const {
    return files_.read(part(matrix, "SCB"), {.first_row = first_row, .rows = rows}, spec::ElementType::float32,
                       std::as_writable_bytes(scales));
  }

  Result<void> decode_rows(std::size_t matrix, const MatrixTile& tile, std::span<float> numbers) const {
    std::vector<std::int8_t> codes(numbers.size());
    const TensorSlice slice{tile.first_row, tile.rows, tile.first_column, tile.columns};
    if (auto read = files_.read(part(matrix, "weight"), slice, spec::ElementType::int8,
                                std::as_writable_bytes(std::span(codes)));
        !read)
      return read;
    std::vector<float> scales(static_cast<std::size_t>(tile.rows));
    if (auto read = read_row_scales(matrix, tile.first_row, tile.rows, scales); !read) return read;
    const auto columns = static_cast<std::size_t>(tile.columns);
    for (std::size_t row = 0; row < scales.size(); ++row) {
      const float step = scales[row] * (1.0F / 127);
      for (std::size_t i = row * columns; i < (row + 1) * columns; ++i)
        numbers[i] = static_cast<float>(codes[i]) * step;
    }
    return {};
  }

  // Elements that follow one another in the matrix, which is one line of runs.
  Result<void> decode_run(std::size_t matrix, std::int64_t first, std::span<float> numbers) const {
    const MatrixState& state = states_[matrix];
    const std::int64_t end = first + static_cast<std::int64_t>(numbers.size());
    const std::int64_t first_byte = first / 2, first_run = first / state.packing.run;
    std::vector<std::byte> bytes(static_cast<std::size_t>(spec::divided_up(end, 2) - first_byte));
    if (auto read = files_.read_bytes(part(matrix, "weight"), static_cast<std::uint64_t>(first_byte), bytes); !read)
      return read;
    std::vector<float> scales(static_cast<std::size_t>(spec::divided_up(end, state.packing.run) - first_run));
    if (auto read = read_run_scales(matrix, first_run, scales); !read) return read;
    const CodeTable& table = state.packing.code == PackedCode::nf4 ? nf4_table : fp4_table;
    for (std::int64_t i = first; i < end; ++i) {
      const auto byte = std::to_integer<unsigned>(bytes[static_cast<std::size_t>(i / 2 - first_byte)]);
      const float scale = scales[static_cast<std::size_t>(i / state.packing.run - first_run)];
      numbers[static_cast<std::size_t>(i - first)] = table[i % 2 == 0 ? byte >> 4 : byte & 15] * scale;
    }
    return {};
  }

  Result<void> read_run_scales(std::size_t matrix, std::int64_t first, std::span<float> scales) const {
    const auto& coded = states_[matrix].scales;
    const auto count = static_cast<std::int64_t>(scales.size());
    if (!coded)
      return files_.read(part(matrix, "weight.absmax"), {.first_row = first, .rows = count},
                         spec::ElementType::float32, std::as_writable_bytes(scales));
    std::vector<std::uint8_t> codes(scales.size());
    if (auto read = files_.read_bytes(part(matrix, "weight.absmax"), static_cast<std::uint64_t>(first),
                                      std::as_writable_bytes(std::span(codes)));
        !read)
      return read;
    const std::int64_t first_run = first / coded->run;
    const std::int64_t runs = spec::divided_up(first + count, coded->run) - first_run;
    std::vector<float> steps(static_cast<std::size_t>(runs));
    if (auto read = files_.read(part(matrix, "weight.nested_absmax"), {.first_row = first_run, .rows = runs},
                                spec::ElementType::float32, std::as_writable_bytes(std::span(steps)));
        !read)
      return read;
    for (std::int64_t i = 0; i < count; ++i) {
      const float step = steps[static_cast<std::size_t>((first + i) / coded->run - first_run)];
      const auto place = static_cast<std::size_t>(i);
      scales[place] = coded->map[codes[place]] * step + coded->offset;
    }
    return {};
  }

  const SafetensorsSource& files_;
  const Matrices& matrices_;
  std::vector<MatrixState> states_;  // parallel to the matrices
};

}  // namespace

NewDecoder make_decoder(const spec::BitsAndBytesQuantization&, const SafetensorsSource& files,
                        const Matrices& matrices) {
  std::vector<MatrixState> states;
  for (const QuantizedMatrix& matrix : matrices) {
    StateReader reader(files, matrix);
    auto state = files.find(matrix.part("SCB")) != nullptr ? reader.eight_bits() : reader.four_bits();
    if (!state) return state.error();
    states.push_back(std::move(*state));
  }
  return std::unique_ptr<MatrixDecoder>(std::make_unique<BitsAndBytesDecoder>(files, matrices, std::move(states)));
}

}  // namespace muster::checkpoint
