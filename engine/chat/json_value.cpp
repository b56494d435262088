#include "chat/json_value.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "chat/code_points.hpp"
#include "chat/python_text.hpp"

namespace muster::chat {
namespace {

using nlohmann::ordered_json;
constexpr int deepest_json = 200;

std::optional<Value> convert(const ordered_json& json, int depth);

std::optional<Value> convert_list(const ordered_json& json, int depth) {
  auto list = std::make_shared<Sequence>();
  for (const ordered_json& element : json) {
    auto value = convert(element, depth + 1);
    if (!value) return std::nullopt;
    list->extent.add(*value);
    list->elements.push_back(std::move(*value));
  }
  return Value(std::move(list));
}

std::optional<Value> convert_object(const ordered_json& json, int depth) {
  auto made = std::make_shared<Dictionary>();
  for (const auto& [key, element] : json.items()) {
    auto value = convert(element, depth + 1);
    if (!value) return std::nullopt;
    made->assign(Value(key), std::move(*value));
  }
  return Value(std::shared_ptr<const Dictionary>(std::move(made)));
}

std::optional<Value> convert(const ordered_json& json, int depth) {
  if (depth > deepest_json) return std::nullopt;
  switch (json.type()) {
    case ordered_json::value_t::boolean:
      return Value(json.get<bool>());
    case ordered_json::value_t::number_integer:
      return Value(Integer{json.get<std::int64_t>()});
    case ordered_json::value_t::number_unsigned:
      return Value(Integer{json.get<std::uint64_t>()});
    case ordered_json::value_t::number_float:
      return Value(json.get<double>());
    case ordered_json::value_t::string:
      return Value(json.get_ref<const std::string&>());
    case ordered_json::value_t::array:
      return convert_list(json, depth);
    case ordered_json::value_t::object:
      return convert_object(json, depth);
    default:
      return Value(None{});
  }
}

class Writer {
 public:
  Writer(const JsonStyle& style, std::size_t most) : style_(style), most_(most) {}

  bool write(const Value& value, std::size_t level) {
    if (out_.size() > most_) return refuse("a value that takes too much text");
    if (value.is_none())
      out_ += "null";
    else if (const bool* truth = value.truth())
      out_ += *truth ? "true" : "false";
    else if (const auto* integer = std::get_if<Integer>(&value.storage()))
      out_ += integer_text(*integer);
    else if (const double* number = value.number())
      write_number(*number);
    else if (const std::string* text = value.text())
      write_text(*text);
    else if (const Sequence* list = value.sequence();
             list && (list->kind == Sequence::Kind::list || list->kind == Sequence::Kind::tuple))
      return write_list(*list, level);
    else if (const Dictionary* dictionary = value.dictionary())
      return write_dictionary(*dictionary, level);
    else
      return refuse(fmt::format("{} cannot be written as JSON", type_name(value)));
    return true;
  }

  std::string out_;
  std::string what_;

 private:
  bool refuse(std::string what) {
    if (what_.empty()) what_ = std::move(what);
    return false;
  }

  void write_number(double number) {
    if (std::isnan(number))
      out_ += "NaN";
    else if (std::isinf(number))
      out_ += number < 0 ? "-Infinity" : "Infinity";
    else
      out_ += float_text(number);
  }

  void write_unit(unsigned unit) { out_ += fmt::format("\\u{:04x}", unit); }

  void write_beyond_ascii(char32_t value) {
    if (value < 0x10000) return write_unit(static_cast<unsigned>(value));
    write_unit(static_cast<unsigned>(0xD800 + ((value - 0x10000) >> 10)));
    write_unit(static_cast<unsigned>(0xDC00 + ((value - 0x10000) & 0x3FF)));
  }

  void write_text(std::string_view text) {
    constexpr std::string_view letters = "\"\\\n\r\t\f\b", names = "\"\\nrtfb";
    out_ += '"';
    while (!text.empty()) {
      const CodePoint point = first_code_point(text);
      const auto short_form =
          point.value < 0x80 ? letters.find(static_cast<char>(point.value)) : std::string_view::npos;
      if (short_form != std::string_view::npos)
        out_.append("\\").push_back(names[short_form]);
      else if (point.value < 0x20)
        write_unit(static_cast<unsigned>(point.value));
      else if (point.value >= 0x7F + 1 && style_.ascii_only)
        write_beyond_ascii(point.value);
      else
        out_ += text.substr(0, point.length);
      text.remove_prefix(point.length);
    }
    out_ += '"';
  }

  void write_break(std::size_t level) {
    if (!style_.indent) return;
    out_ += '\n';
    for (std::size_t i = 0; i < level; ++i) out_ += *style_.indent;
  }

  bool write_list(const Sequence& list, std::size_t level) {
    if (list.elements.empty()) {
      out_ += "[]";
      return true;
    }
    out_ += '[';
    for (std::size_t i = 0; i < list.elements.size(); ++i) {
      if (i > 0) out_ += style_.item_separator;
      write_break(level + 1);
      if (!write(list.elements[i], level + 1)) return false;
    }
    write_break(level);
    out_ += ']';
    return true;
  }

  // A key as json.dumps turns it into text.
  std::optional<std::string> key_text(const Value& key) {
    if (key.text()) return *key.text();
    if (key.is_none()) return "null";
    if (key.truth()) return *key.truth() ? "true" : "false";
    Integer integer = 0;
    if (to_integer(key, integer)) return integer_text(integer);
    if (key.number()) return float_text(*key.number());
    refuse(fmt::format("{} as a key cannot be written as JSON", type_name(key)));
    return std::nullopt;
  }

  bool write_dictionary(const Dictionary& dictionary, std::size_t level) {
    std::vector<const Dictionary::Entry*> entries;
    for (const auto& entry : dictionary.entries()) entries.push_back(&entry);
    if (style_.sort_keys) {
      if (!std::ranges::all_of(entries, [](const auto* entry) { return entry->first.is_text(); }))
        return refuse("sort_keys with keys that are not texts");
      std::ranges::stable_sort(entries, {}, [](const auto* entry) { return std::string_view(*entry->first.text()); });
    }
    if (entries.empty()) {
      out_ += "{}";
      return true;
    }
    out_ += '{';
    for (std::size_t i = 0; i < entries.size(); ++i) {
      if (i > 0) out_ += style_.item_separator;
      write_break(level + 1);
      const auto key = key_text(entries[i]->first);
      if (!key) return false;
      write_text(*key);
      out_ += style_.key_separator;
      if (!write(entries[i]->second, level + 1)) return false;
    }
    write_break(level);
    out_ += '}';
    return true;
  }

  const JsonStyle& style_;
  std::size_t most_;
};

}  // namespace

std::optional<Value> from_json(const ordered_json& json) { return convert(json, 0); }

std::optional<std::string> to_json(const Value& value, const JsonStyle& style, std::size_t most, std::string& what) {
  Writer writer(style, most);
  if (writer.write(value, 0)) return std::move(writer.out_);
  what = std::move(writer.what_);
  return std::nullopt;
}

}  // namespace muster::chat
