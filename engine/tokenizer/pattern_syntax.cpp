#include "tokenizer/pattern_syntax.hpp"

#include <fmt/format.h>

#include "tokenizer/class_syntax.hpp"
#include "tokenizer/letter_case.hpp"

namespace muster::tokenizer {
namespace {

constexpr int deepest_group = 100;
constexpr std::size_t longest_pattern = 100'000, most_sets = 4096;
constexpr int most_quantifiers = 16;  // of one thing

struct Options {
  bool any_case = false;
  bool dot_takes_newline = false;
};

CodePointSet of(char32_t point) {
  CodePointSet set;
  set.add(point, point);
  return set;
}

class Parser {
 public:
  explicit Parser(std::string_view pattern) : reader_(pattern) {}

  PatternSyntax parse() {
    alternatives({}, 0);
    if (!reader_.at_end()) reader_.complain("a \")\" without its \"(\"");
    return std::move(syntax_);
  }
  const std::string& complaint() const { return reader_.complaint(); }

 private:
  void emit(std::string text) { syntax_.fragments.push_back({std::move(text)}); }
  void emit(CodePointSet set) {
    if (syntax_.sets.size() == most_sets)
      reader_.complain(fmt::format("more than {} characters and classes", most_sets));
    syntax_.fragments.push_back({{}, syntax_.sets.size()});
    syntax_.sets.push_back(std::move(set));
  }

  // Up to the end of the group or of the pattern.
  void alternatives(Options options, int depth) {
    if (depth > deepest_group) reader_.complain("groups nested too deep");
    while (!reader_.at_end() && !reader_.sees(")")) {
      if (reader_.take("|")) {
        end_literal();
        emit("|");
        continue;
      }
      const std::size_t begin = syntax_.fragments.size();
      if (atom(options, depth)) quantifiers(begin);
    }
    end_literal();
  }

  // Whether it is something that may be repeated.
  bool atom(Options options, int depth) {
    if (reader_.take("(")) {
      end_literal();
      return group(options, depth);
    }
    if (reader_.take("[")) {
      end_literal();
      return bracket(options), true;
    }
    if (reader_.take(".")) {
      end_literal();
      emit(options.dot_takes_newline ? CodePointSet().complement() : of(U'\n').complement());
      return true;
    }
    if (reader_.take("\\")) return escape(options);
    if (reader_.sees("^") || reader_.sees("$")) {
      end_literal();
      return reader_.take("^") ? line_begin() : (reader_.take("$"), line_end());
    }
    if (reader_.sees("*") || reader_.sees("+") || reader_.sees("?")) {
      reader_.complain(fmt::format("a \"{}\" that repeats nothing", reader_.peek()));
      return false;
    }
    literal(reader_.next(), options);
    return true;
  }

  void literal(char32_t point, Options options) {
    if (options.any_case)
      literal_ += point;
    else
      end_literal();
    emit(options.any_case ? in_any_case(of(point)) : of(point));
  }

  // Where case does not count, characters in a row may have one that stands for all of them.
  void end_literal() {
    if (has_long_case(literal_)) refuse_long_case();
    literal_.clear();
  }
  void refuse_long_case() {
    reader_.complain("(?i) over characters of which one stands for several, such as ß for ss, is not built");
  }

  void bracket(Options options) {
    const BracketClass read = read_bracket_class(reader_);
    emit_class(read.set, read.negated, options);
  }

  void emit_class(CodePointSet set, bool negated, Options options) {
    if (options.any_case) {
      for (std::size_t at = 0; at < tables::long_case.size() && !negated; at += 2 + tables::long_case[at + 1])
        if (set.contains(tables::long_case[at])) refuse_long_case();
      set = in_any_case(set);
    }
    emit(negated ? set.complement() : std::move(set));
  }

  bool escape(Options options) {
    if (auto characters = read_character_escape(reader_)) {
      if (characters->character) return literal(*characters->character, options), true;
      end_literal();
      emit(std::move(characters->set));
      return true;
    }
    end_literal();
    switch (const char letter = reader_.peek(); reader_.next(), letter) {
      case 'A':
        return emit("\\A"), false;
      case 'z':
        return emit("\\z"), false;
      case 'Z':
        emit("(?=");
        emit(of(U'\n'));
        return emit("?\\z)"), false;
      case 'b':
        return word_boundary("=", "!"), false;
      case 'B':
        return word_boundary("=", "="), false;
      case 'R':
        return line_break();
      default:
        reader_.complain(fmt::format("\\{} is not built", letter));
        return false;
    }
  }

  // A word character on one side only, or on both or neither.
  void word_boundary(std::string_view first, std::string_view second) {
    const CodePointSet word = bracket_class("word").value();
    const auto inverse = [](std::string_view sign) { return sign == "=" ? "!" : "="; };
    emit(fmt::format("(?:(?<{}", first));
    emit(word);
    emit(fmt::format(")(?{}", second));
    emit(word);
    emit(fmt::format(")|(?<{}", inverse(first)));
    emit(word);
    emit(fmt::format(")(?{}", inverse(second)));
    emit(word);
    emit("))");
  }

  bool line_break() {
    CodePointSet single;
    single.add(U'\n', U'\r');
    single.add(0x85, 0x85);
    single.add(0x2028, 0x2029);
    emit("(?>");
    emit(of(U'\r'));
    emit(of(U'\n'));
    emit("|");
    emit(single);
    emit(")");
    return true;
  }

  bool line_begin() {
    emit("(?:\\A|(?<=");
    emit(of(U'\n'));
    emit(")(?!\\z))");
    return false;
  }

  bool line_end() {
    emit("(?=");
    emit(of(U'\n'));
    emit("|\\z)");
    return false;
  }

  // A group whose "(" was taken.
  bool group(Options options, int depth) {
    if (reader_.take("?#")) {
      static_cast<void>(reader_.until(")"));
      return false;
    }
    for (const std::string_view opening : {"?:", "?=", "?!", "?<=", "?<!", "?>"})
      if (reader_.take(opening)) return finish_group(fmt::format("({}", opening), options, depth);
    if (reader_.take("?<")) {  // a name serves backreferences only, which are refused
      static_cast<void>(reader_.until(">"));
      return finish_group("(?:", options, depth);
    }
    if (reader_.take("?")) return option_group(options, depth);
    if (reader_.sees("*")) reader_.complain("(*…) is not built");
    return finish_group("(?:", options, depth);
  }

  bool finish_group(std::string opening, Options options, int depth) {
    const bool looks_around = opening != "(?:" && opening != "(?>";
    emit(std::move(opening));
    alternatives(options, depth + 1);
    if (!reader_.take(")")) reader_.complain("a \"(\" without its \")\"");
    emit(")");
    return !looks_around;
  }

  // (?i), (?i:…), (?m-i:…): "(?" was taken. Without a colon it holds to the end of the enclosing group, alternatives
  // included.
  bool option_group(Options options, int depth) {
    bool on = true;
    for (;;) {
      if (reader_.take("-")) {
        on = false;
      } else if (reader_.take("i")) {
        options.any_case = on;
      } else if (reader_.take("m")) {
        options.dot_takes_newline = on;
      } else if (!on && reader_.take("x")) {
      } else {
        break;
      }
    }
    if (reader_.take(":")) return finish_group("(?:", options, depth);
    if (!reader_.take(")")) {
      reader_.complain(fmt::format("(?{} is not built", reader_.peek()));
      return false;
    }
    emit("(?:");
    alternatives(options, depth + 1);
    emit(")");
    return false;
  }

  // What repeats the fragments from `begin` on. An interval takes no "+" of its own: a{2}+ is (?:a{2})+.
  void quantifiers(std::size_t begin) {
    for (int count = 0; !reader_.at_end(); ++count) {
      const std::size_t before = reader_.position();
      std::string repeats;
      bool interval = false, exact = false;
      if (reader_.sees("*") || reader_.sees("+") || reader_.sees("?")) {
        repeats = static_cast<char>(reader_.next());
      } else if (reader_.take("{")) {
        interval = read_interval(repeats, exact);
        if (!interval) reader_.go_back(before);
      }
      if (repeats.empty() || reader_.failed()) return;
      end_literal();
      if (count == most_quantifiers) reader_.complain("too many repetitions of one thing");
      if (count > 0) wrap(begin);
      if (!exact && reader_.take("?"))
        repeats += '?';
      else if (!interval && reader_.take("+"))
        repeats += '+';
      emit(std::move(repeats));
    }
  }

  // {2}, {2,}, {,3}, {2,3}: "{" was taken. Anything else is the character itself.
  bool read_interval(std::string& repeats, bool& exact) {
    const auto least = reader_.number(10, 5);
    const bool comma = reader_.take(",");
    const auto most = comma ? reader_.number(10, 5) : least;
    if (!reader_.take("}") || (!least && !most)) return false;
    exact = !comma;
    repeats = fmt::format("{{{}", static_cast<std::uint32_t>(least.value_or(0)));
    if (comma) repeats += most ? fmt::format(",{}", static_cast<std::uint32_t>(*most)) : ",";
    repeats += "}";
    return true;
  }

  void wrap(std::size_t begin) {
    syntax_.fragments.insert(syntax_.fragments.begin() + static_cast<std::ptrdiff_t>(begin), {"(?:"});
    emit(")");
  }

  PatternReader reader_;
  PatternSyntax syntax_;
  std::u32string literal_;  // characters in a row where case does not count
};

}  // namespace

Result<PatternSyntax> parse_pattern(std::string_view pattern) {
  const auto refusal = [&](std::string_view why) {
    return Error{Error::Kind::bad_input, fmt::format("the pattern {:.200} cannot be used: {}", pattern, why),
                 "write the pattern with groups, classes, repetitions and look-around alone"};
  };
  if (pattern.size() > longest_pattern) return refusal(fmt::format("longer than {} bytes", longest_pattern));
  Parser parser(pattern);
  PatternSyntax syntax = parser.parse();
  if (!parser.complaint().empty()) return refusal(parser.complaint());
  return syntax;
}

}  // namespace muster::tokenizer
