// Where the options of muster launch end, and in which spelling they are passed on.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cctype>

#include "base/text.hpp"
#include "cli/command.hpp"

namespace muster::cli {
namespace {

// Options of accelerate launch that muster launch lacks: named, so that users do not have to guess.
struct ForeignOption {
  std::string_view name;
  std::string_view instead;
};
constexpr std::array foreign_options{
    ForeignOption{"--mixed-precision", "say it in the script: Accelerator(mixed_precision=\"bf16\")"},
    ForeignOption{"--use-fsdp", "say it in the script: Accelerator(fsdp_plugin=...)"},
    ForeignOption{"--use-deepspeed", "say it in the script: Accelerator(deepspeed_plugin=...)"},
    ForeignOption{"--use-megatron-lm", "say it in the script"},
    ForeignOption{"--dynamo-backend", "say it in the script: torch.compile"},
    ForeignOption{"--gradient-accumulation-steps", "say it in the script"},
    ForeignOption{"--config-file", "give the options themselves: muster launch --help"},
    ForeignOption{"--tpu", "muster runs on NVIDIA GPUs and on CPUs"},
    ForeignOption{"--enable-cpu-affinity", "--numa-binding node"},
    ForeignOption{"--deepspeed-hostfile", "--nnodes, --node-rank and --master-addr on each host"},
};

std::string with_dashes(std::string name) {
  std::ranges::replace(name, '_', '-');
  return name;
}

// The option a word names: exactly, or as an unambiguous prefix.
Result<const CLI::Option*> find_option(const CLI::App& command, const std::string& written) {
  const std::string name = with_dashes(written).substr(2);
  std::vector<const CLI::Option*> begun;
  std::vector<std::string> known;
  for (const CLI::Option* option : command.get_options()) {
    for (const std::string& word : option->get_lnames()) {
      if (word == name) return option;
      known.push_back("--" + word);
      if (word.starts_with(name) && std::ranges::find(begun, option) == begun.end()) begun.push_back(option);
    }
  }
  if (begun.size() == 1) return begun.front();
  for (const ForeignOption& foreign : foreign_options)
    if (foreign.name == "--" + name)
      return Error{Error::Kind::bad_input, fmt::format("{} is not served by muster launch", written),
                   std::string(foreign.instead)};
  if (begun.size() > 1) {
    std::vector<std::string> names;
    for (const CLI::Option* option : begun) names.push_back("--" + option->get_lnames().front());
    return Error{Error::Kind::bad_input, fmt::format("{} could mean {}", written, join(names, ", ")), "write it out"};
  }
  const auto near = nearest("--" + name, known);
  return Error{Error::Kind::bad_input, fmt::format("there is no option {}", written),
               near ? *near : "muster launch --help lists the options; the script's own go after the script"};
}

// Whether a word can be one of several ids: "0", "0,2", "GPU-1a2b", "MIG-…", "all".
bool is_gpu_id(std::string_view word) {
  if (word == "all" || word.starts_with("GPU-") || word.starts_with("MIG-")) return true;
  return !word.empty() &&
         std::ranges::all_of(word, [](unsigned char letter) { return std::isdigit(letter) != 0 || letter == ','; });
}

// Underscores stand for dashes, and an unambiguous prefix for the whole name, as with torchrun. Nothing after the
// script is looked at.
class Cutter {
 public:
  Cutter(const CLI::App& command, const std::vector<std::string>& arguments)
      : command_(command), arguments_(arguments) {}

  Result<CommandLine> cut() {
    result_.own.push_back(arguments_[position_++]);  // "launch"
    while (position_ < arguments_.size()) {
      const std::string& word = arguments_[position_];
      if (word == "--") {
        result_.tail.separated = true;
        ++position_;
        break;
      }
      if (!word.starts_with('-') || word == "-") break;
      ++position_;
      auto taken = word.starts_with("--") ? take_long(word) : take_short(word);
      if (!taken) return taken.error();
    }
    result_.tail.words.assign(arguments_.begin() + static_cast<std::ptrdiff_t>(position_), arguments_.end());
    return std::move(result_);
  }

 private:
  Result<void> take_long(const std::string& word) {
    const std::size_t equals = word.find('=');
    const auto option = find_option(command_, word.substr(0, equals));
    if (!option) return option.error();
    std::string spelled = "--" + (*option)->get_lnames().front();
    if (equals != std::string::npos) {
      result_.own.push_back(spelled + word.substr(equals));
      return {};
    }
    result_.own.push_back(spelled);
    return take_values(**option, word);
  }

  // "-r3", "-r 3", "-m".
  Result<void> take_short(const std::string& word) {
    const CLI::Option* option = command_.get_option_no_throw(word.substr(0, 2));
    if (option == nullptr)
      return Error{Error::Kind::bad_input, fmt::format("there is no option {}", word.substr(0, 2)),
                   "muster launch --help lists the options; the script's own go after the script"};
    result_.own.push_back(word);
    return word.size() > 2 ? Result<void>() : take_values(*option, word);
  }

  Result<void> take_values(const CLI::Option& option, const std::string& written) {
    if (option.get_items_expected_max() == 0) return {};
    if (option.get_items_expected_max() > 1) {
      while (position_ < arguments_.size() && is_gpu_id(arguments_[position_]))
        result_.own.push_back(arguments_[position_++]);
      return {};
    }
    if (option.get_items_expected_min() == 0) return {};  // a value only with =, as in --wait=10m
    if (position_ == arguments_.size())
      return Error{Error::Kind::bad_input, fmt::format("{} needs a value", written), "muster launch --help"};
    // Joined, so that a value that begins with a dash stays a value.
    if (written.starts_with("--"))
      result_.own.back() += "=" + arguments_[position_++];
    else
      result_.own.push_back(arguments_[position_++]);
    return {};
  }

  const CLI::App& command_;
  const std::vector<std::string>& arguments_;
  std::size_t position_ = 0;
  CommandLine result_;
};

}  // namespace

Result<CommandLine> cut_launch_line(const CLI::App& command, const std::vector<std::string>& words) {
  return Cutter(command, words).cut();
}

}  // namespace muster::cli
