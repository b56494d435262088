// Every setting as one row that can be read, written, checked and explained; built from the describe() of RunSpec.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/document.hpp"
#include "base/result.hpp"
#include "spec/run_spec.hpp"

namespace muster::spec {

struct Field {
  std::string key;                                        // "distributed.num_gpus"
  std::string help;                                       // one sentence
  std::string accepted;                                   // "a whole number, at least 1"
  bool is_choice = false;                                 // accepted lists single words
  std::string unit;                                       // "tokens"; empty when there is none
  std::string fallback;                                   // the built-in value as text
  std::optional<Capability> capability;                   // needed when the value is not the built-in one
  std::map<std::string, Capability> capability_of_value;  // needed by single words of a closed set
  std::function<Result<void>(RunSpec&, const Node&)> read;
  std::function<std::string(const RunSpec&)> write;  // YAML
};

struct Section {
  std::string key;  // "distributed", "algos.PITA"
  std::string help;
};

class Schema {
 public:
  Schema();

  const std::vector<Field>& fields() const { return fields_; }
  const std::vector<Section>& sections() const { return sections_; }
  const Field* find(std::string_view key) const;
  bool is_section(std::string_view key) const;
  const std::vector<std::string>& keys() const { return keys_; }

 private:
  std::vector<Field> fields_;
  std::vector<Section> sections_;
  std::vector<std::string> keys_;
  std::map<std::string, std::size_t, std::less<>> by_key_;
};

// The environment variable of a key: "distributed.num_gpus" → "MUSTER_DISTRIBUTED_NUM_GPUS".
std::string environment_name(std::string_view key);

// docs/configuration.md, all of it.
std::string configuration_page(const Schema& schema);

}  // namespace muster::spec
