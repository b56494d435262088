// One end of a connection between an agent and the coordinator, without a socket: a handshake in which each side shows
// that it knows the secret of the run, then lines under seals that nobody else can make.
//
// Note [Seals]: agent → {"message":"hello","protocol":2,"nonce":N1}; coordinator → {"message":"challenge","nonce":N2};
// from then on every line of either side is a seal, a blank and JSON. A seal is the HMAC-SHA-256, under a key made of
// the secret, both nonces and the direction, of the line's number and its JSON: a line of another connection, of the
// other direction, of another place in the order, or of a stranger has the wrong seal. The first sealed line of each
// side, the agent's first, is its proof; nothing about the run is said before both are right. Lines are not encrypted.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "system/hmac.hpp"
#include "rendezvous/agent_message.hpp"

namespace muster::rendezvous {

// Lines before the proof are short; a longer one is junk.
inline constexpr std::size_t longest_greeting = 1024;
inline constexpr std::size_t seal_size = 2 * sizeof(HmacCode) + 1;  // with the blank

class SealedChannel {
 public:
  enum class Side { agent, coordinator };
  // secret: may be empty (an insecure run); then anybody can make seals.
  SealedChannel(Side side, std::string secret);

  // What to send when the connection is open: the agent's hello, nothing from the coordinator.
  std::string opening() const;

  // What a line (without its newline) led to.
  struct Heard {
    std::string reply = {};                        // to be sent as it is: the next step of the handshake, or a refusal
    std::optional<std::string_view> message = {};  // JSON of the other side, which has proved that it knows the secret
    std::optional<Refuse> refused = {};            // agent: the coordinator will not have it
    std::optional<std::string> broken = {};        // why this connection cannot be used any more
  };
  Heard hear(std::string_view line);

  // Both sides have shown that they know the secret.
  bool established() const { return established_; }
  // A whole line, newline included, as it goes over the wire. Only once established.
  std::string seal(std::string_view line);
  // Longest line that may come next, without its newline.
  std::size_t longest_line() const { return established_ ? seal_size + longest_message : longest_greeting; }

 private:
  Heard take_hello(std::string_view line);
  Heard take_challenge(std::string_view line);
  Heard take_sealed(std::string_view line);
  void make_keys(std::string_view agent_nonce, std::string_view coordinator_nonce);

  Side side_;
  std::string secret_;
  std::string nonce_;
  bool has_keys_ = false;
  bool established_ = false;
  HmacCode outgoing_key_{}, incoming_key_{};
  std::uint64_t sealed_ = 0, opened_ = 0;  // lines so far
};

}  // namespace muster::rendezvous
