#include "base/line_editor.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/cell_text.hpp"
#include "base/text.hpp"

namespace muster {
namespace {

constexpr std::size_t narrowest = 20;

constexpr char ctrl(char letter) { return static_cast<char>(letter - 'A' + 1); }
constexpr char escape = '\033', backspace = '\177';

// Bytes of the character that begins with this one; 0: none does.
std::size_t length_of(char first) {
  const auto byte = static_cast<unsigned char>(first);
  if (byte < 0x80) return 1;
  if (byte >= 0xC2 && byte < 0xE0) return 2;
  if (byte >= 0xE0 && byte < 0xF0) return 3;
  return byte >= 0xF0 && byte < 0xF5 ? 4 : 0;
}

std::vector<std::string> characters_of(std::string_view text) {
  std::vector<std::string> characters;
  while (!text.empty()) {
    const std::size_t length = std::clamp<std::size_t>(length_of(text.front()), 1, text.size());
    characters.emplace_back(text.substr(0, length));
    text.remove_prefix(length);
  }
  return characters;
}

bool is_control(const std::string& character) {
  return character.size() == 1 && static_cast<unsigned char>(character.front()) < 0x20;
}

// A character as it is shown.
std::string_view glyph(const std::string& character) {
  if (character == "\n") return "↵";
  if (is_control(character)) return " ";
  return character;
}

bool is_blank(const std::string& character) { return character == " " || character == "\t" || character == "\n"; }

}  // namespace

LineEditor::LineEditor(std::string prompt, std::vector<std::string> history)
    : prompt_(std::move(prompt)), history_(std::move(history)), browsed_(history_.size()) {}

std::string LineEditor::begin(std::size_t columns) {
  columns_ = std::max(columns, narrowest);
  characters_.clear();
  partial_.clear();
  draft_.clear();
  cursor_ = first_shown_ = 0;
  browsed_ = history_.size();
  mode_ = Mode::plain;
  in_paste_ = false;
  return prompt_;
}

void LineEditor::remember(const std::string& line) {
  if (!line.empty() && (history_.empty() || history_.back() != line)) history_.push_back(line);
}

std::string LineEditor::joined() const { return join(characters_, ""); }

// Cells for the text; the last column stays free, so that no terminal wraps.
std::size_t LineEditor::room() const { return columns_ - prompt_.size() - 1; }

// The whole line again, with as much of it as fits around the cursor.
std::string LineEditor::drawn() {
  const auto width = [&](std::size_t begin, std::size_t end) {
    std::size_t cells = 0;
    for (std::size_t i = begin; i < end; ++i) cells += cell_width(glyph(characters_[i]));
    return cells;
  };
  first_shown_ = std::min(first_shown_, cursor_);
  while (width(first_shown_, cursor_) > room()) ++first_shown_;
  while (first_shown_ > 0 && width(first_shown_ - 1, characters_.size()) <= room()) --first_shown_;
  std::string text;
  for (std::size_t i = first_shown_, cells = 0; i < characters_.size(); ++i) {
    cells += cell_width(glyph(characters_[i]));
    if (cells > room()) break;
    text += glyph(characters_[i]);
  }
  return fmt::format("\r{}{}\033[K\r\033[{}C", prompt_, text, prompt_.size() + width(first_shown_, cursor_));
}

void LineEditor::insert(std::string character, std::string& shown) {
  const bool at_end = cursor_ == characters_.size();
  const auto place = characters_.begin() + static_cast<std::ptrdiff_t>(cursor_++);
  const std::string added = *characters_.insert(place, std::move(character));
  const std::string before = first_shown_ == 0 && at_end ? joined() : "";
  // In the usual case, typing at the end, only the character is written.
  if (at_end && first_shown_ == 0 && !is_control(added) && before.find_first_of("\n\t") == std::string::npos &&
      cell_width(before) <= room())
    shown += added;
  else
    shown += drawn();
}

void LineEditor::erase(std::size_t begin, std::size_t end, std::string& shown) {
  if (begin >= end) return;
  characters_.erase(characters_.begin() + static_cast<std::ptrdiff_t>(begin),
                    characters_.begin() + static_cast<std::ptrdiff_t>(end));
  cursor_ = begin;
  shown += drawn();
}

void LineEditor::move_to(std::size_t place, std::string& shown) {
  cursor_ = std::min(place, characters_.size());
  shown += drawn();
}

void LineEditor::replace(const std::string& line, std::string& shown) {
  characters_ = characters_of(line);
  cursor_ = characters_.size();
  first_shown_ = 0;
  shown += drawn();
}

void LineEditor::browse(int step, std::string& shown) {
  if ((step < 0 && browsed_ == 0) || (step > 0 && browsed_ == history_.size())) return;
  if (browsed_ == history_.size()) draft_ = joined();
  browsed_ = step < 0 ? browsed_ - 1 : browsed_ + 1;
  replace(browsed_ == history_.size() ? draft_ : history_[browsed_], shown);
}

// The line that is left on the terminal is whole, however it was scrolled.
LineEditor::Event LineEditor::leave(Event event, std::string& shown) {
  text_ = joined();
  const bool is_shown = first_shown_ == 0 && cursor_ == characters_.size() && cell_width(text_) <= room();
  if (!is_shown || text_.find('\n') != std::string::npos) {
    std::string visible;
    for (const std::string& character : characters_) visible += character == "\n" ? "\n" : glyph(character);
    shown += fmt::format("\r{}\033[K{}", prompt_, visible);
  }
  shown += event == Event::interrupt ? "^C\n" : "\n";
  characters_.clear();
  cursor_ = first_shown_ = 0;
  return event;
}

LineEditor::Event LineEditor::control(char byte, std::string& shown) {
  std::size_t word = cursor_;
  switch (byte) {
    case '\r':
    case '\n':
      return leave(Event::line, shown);
    case ctrl('C'):
      return leave(Event::interrupt, shown);
    case ctrl('D'):
      if (characters_.empty()) return leave(Event::end, shown);
      if (cursor_ < characters_.size()) erase(cursor_, cursor_ + 1, shown);
      break;
    case ctrl('A'):
      move_to(0, shown);
      break;
    case ctrl('E'):
      move_to(characters_.size(), shown);
      break;
    case ctrl('B'):
      if (cursor_ > 0) move_to(cursor_ - 1, shown);
      break;
    case ctrl('F'):
      move_to(cursor_ + 1, shown);
      break;
    case ctrl('H'):
    case backspace:
      if (cursor_ > 0) erase(cursor_ - 1, cursor_, shown);
      break;
    case ctrl('K'):
      erase(cursor_, characters_.size(), shown);
      break;
    case ctrl('U'):
      erase(0, cursor_, shown);
      break;
    case ctrl('W'):
      while (word > 0 && is_blank(characters_[word - 1])) --word;
      while (word > 0 && !is_blank(characters_[word - 1])) --word;
      erase(word, cursor_, shown);
      break;
    case ctrl('L'):
      shown += "\033[H\033[2J" + drawn();
      break;
    case ctrl('P'):
      browse(-1, shown);
      break;
    case ctrl('N'):
      browse(1, shown);
      break;
    case '\t':
      insert(" ", shown);
      break;
    default:
      break;
  }
  return Event::none;
}

// CSI … final, or SS3 final.
void LineEditor::sequence_ended(char final, std::string& shown) {
  const std::string parameters = std::exchange(parameters_, "");
  mode_ = in_paste_ ? Mode::pasting : Mode::plain;
  if (final == '~' && parameters == "200") in_paste_ = true, mode_ = Mode::pasting;
  if (final == '~' && parameters == "201") in_paste_ = false, mode_ = Mode::plain;
  if (in_paste_ || (final == '~' && parameters == "201")) return;
  if (final == 'A') browse(-1, shown);
  if (final == 'B') browse(1, shown);
  if (final == 'C') move_to(cursor_ + 1, shown);
  if (final == 'D' && cursor_ > 0) move_to(cursor_ - 1, shown);
  const bool tilde = final == '~';
  if (final == 'H' || (tilde && (parameters == "1" || parameters == "7"))) move_to(0, shown);
  if (final == 'F' || (tilde && (parameters == "4" || parameters == "8"))) move_to(characters_.size(), shown);
  if (tilde && parameters == "3" && cursor_ < characters_.size()) erase(cursor_, cursor_ + 1, shown);
}

// Bytes that do not make a character are dropped.
void LineEditor::take_text_byte(char byte, std::string& shown) {
  const bool continues = (static_cast<unsigned char>(byte) & 0xC0) == 0x80;
  if (continues == partial_.empty()) partial_.clear();
  if (continues && partial_.empty()) return;
  partial_ += byte;
  const std::size_t length = length_of(partial_.front());
  if (length == 0) partial_.clear();
  if (partial_.empty() || partial_.size() < length) return;
  std::string character = std::exchange(partial_, "");
  if (is_utf8(character)) insert(std::move(character), shown);
}

LineEditor::Event LineEditor::take(char byte, std::string& shown) {
  if (mode_ == Mode::escape) {
    const bool begins = byte == '[' || byte == 'O';
    mode_ = begins ? Mode::sequence : in_paste_ ? Mode::pasting : Mode::plain;
    parameters_.clear();
    return Event::none;
  }
  if (mode_ == Mode::sequence) {
    if (byte >= '@' && byte <= '~')
      sequence_ended(byte, shown);
    else if (parameters_.size() < 16)
      parameters_ += byte;
    return Event::none;
  }
  if (byte == escape) {
    mode_ = Mode::escape;
    return Event::none;
  }
  const bool is_text = static_cast<unsigned char>(byte) >= 0x20 && byte != backspace;
  if (mode_ == Mode::pasting && !is_text) {
    if (byte == '\r' || byte == '\n') insert("\n", shown);
    if (byte == '\t') insert("\t", shown);
    return Event::none;
  }
  if (!is_text) return control(byte, shown);
  take_text_byte(byte, shown);
  return Event::none;
}

}  // namespace muster
