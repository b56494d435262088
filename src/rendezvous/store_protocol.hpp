// The wire protocol of torch's TCPStore: what a client asks and how it is written. Integers are little-endian; a text
// is its length (64 bits) and its bytes. Requests are read where they lie: nothing is copied until it is stored.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace muster::rendezvous {

struct StoreLimits;

// The first byte of each request. In parentheses the fields of StoreRequest it carries, after the arrow the reply.
enum class StoreCommand : std::uint8_t {
  validate,        // (number: store_magic) → nothing; the first request of a connection, and no other
  set,             // (key, value) → nothing
  compare_set,     // (key, value: the expected one, desired) → text
  get,             // (key) → text, empty where there is none
  add,             // (key, amount) → 64 bits: the sum
  check,           // (keys) → a Readiness
  wait,            // (keys) → a WaitEnd, once all are there
  number_of_keys,  // () → 64 bits
  delete_key,      // (key) → 64 bits: 1, or 0 where there was none
  append,          // (key, value) → nothing
  multiple_get,    // (keys) → a text for each
  multiple_set,    // (keys, values) → nothing
  cancel_wait,     // () → WaitEnd::cancelled; the pending wait or barrier is forgotten
  ping,            // (number) → the same 32 bits
  queue_push,      // (key, value) → nothing
  queue_pop,       // (key) → 64 bits: the length before; and if it was not 0, the text
  queue_length,    // (key) → 64 bits
  list_keys,       // () → 64 bits: how many; and a text for each
  barrier,         // (key, amount: how many must come) → a WaitEnd, once they have
};
inline constexpr std::size_t store_command_count = 19;

inline constexpr std::uint32_t store_magic = 0x3C85F7CE;

enum class Readiness : std::uint8_t { ready, not_ready };
enum class WaitEnd : std::uint8_t { over, cancelled };

// Views into the bytes it was read from, or the caller's own texts when it is to be written.
struct StoreRequest {
  StoreCommand command = StoreCommand::validate;
  std::string_view key;
  std::string_view value;
  std::string_view desired;
  std::int64_t amount = 0;
  std::uint32_t number = 0;
  std::vector<std::string_view> keys;
  std::vector<std::string_view> values;
};

struct Decoding {
  enum class Outcome {
    complete,
    incomplete,
    malformed,  // no such command, or a length beyond the limits
  };
  Outcome outcome = Outcome::malformed;
  std::size_t size =
      0;  // complete: the bytes it took; incomplete: the bytes there must be before another try can succeed
};
// Reads the request that bytes begin with. request is an argument so that its vectors are used again; after anything
// but Outcome::complete it holds nothing of use.
Decoding decode(std::string_view bytes, const StoreLimits& limits, StoreRequest& request);

// Appends the request as a client sends it.
void encode(const StoreRequest& request, std::string& bytes);

// ---- the parts of replies ----
void append_byte(std::string& bytes, std::uint8_t value);
void append_number(std::string& bytes, std::int64_t value);
void append_number(std::string& bytes, std::uint32_t value);
void append_text(std::string& bytes, std::string_view text);

}  // namespace muster::rendezvous
