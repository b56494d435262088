#include "rendezvous/sealed_channel.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <stdexcept>

#include "base/one_line.hpp"
#include "json/member_reader.hpp"

namespace muster::rendezvous {
namespace {

using nlohmann::json;

constexpr std::size_t nonce_bytes = 32;
constexpr std::size_t longest_refusal = 400;  // characters, of a coordinator that has proved nothing
constexpr const char* different_secrets =
    "this host's secret is not the one of the run: give every host the same --rdzv-secret-file or MUSTER_RDZV_SECRET, "
    "or every host --insecure";
constexpr std::string_view proof = "{\"message\":\"proof\"}\n";

std::string as_line(const json& fields) { return fields.dump() + '\n'; }

std::string text_of(const json& object, const char* name) { return find_text(object, name).value_or(""); }

bool is_nonce(const std::string& text) {
  return text.size() == 2 * nonce_bytes && text.find_first_not_of("0123456789abcdef") == std::string::npos;
}

std::string seal_of(const HmacCode& key, std::uint64_t number, std::string_view text) {
  return to_hexadecimal(hmac_sha256(key, fmt::format("{} {}", number, text)));
}

// The coordinator tells what may be a stranger; nothing in the words is about the run. An agent says nothing.
SealedChannel::Heard broken(SealedChannel::Side side, const std::string& reason) {
  const bool tells = side == SealedChannel::Side::coordinator;
  return {.reply = tells ? encode(CoordinatorMessage(Refuse{reason, false})) : "", .broken = reason};
}

}  // namespace

SealedChannel::SealedChannel(Side side, std::string secret)
    : side_(side), secret_(std::move(secret)), nonce_(random_hexadecimal(nonce_bytes)) {}

std::string SealedChannel::opening() const {
  if (side_ == Side::coordinator) return "";
  return as_line({{"message", "hello"}, {"protocol", agent_protocol}, {"nonce", nonce_}});
}

SealedChannel::Heard SealedChannel::hear(std::string_view line) {
  if (line.size() > longest_line()) return broken(side_, "a line that is too long");
  if (!has_keys_) return side_ == Side::coordinator ? take_hello(line) : take_challenge(line);
  // Until its proof has come, the coordinator may still refuse, in the clear.
  if (side_ == Side::agent && !established_ && line.starts_with('{')) return take_challenge(line);
  return take_sealed(line);
}

SealedChannel::Heard SealedChannel::take_hello(std::string_view line) {
  const json object = json::parse(line, nullptr, false);
  if (!object.is_object()) return broken(side_, "not a message of a muster agent: use the same muster on every host");
  if (find_whole(object, "protocol") != agent_protocol)
    return broken(side_, fmt::format("the coordinator speaks version {} of the protocol, this agent another one: use "
                                     "the same muster on every host",
                                     agent_protocol));
  const std::string agent_nonce = text_of(object, "nonce");
  if (text_of(object, "message") != "hello" || !is_nonce(agent_nonce))
    return broken(side_, "not the greeting of a muster agent: use the same muster on every host");
  make_keys(agent_nonce, nonce_);
  return {.reply = as_line({{"message", "challenge"}, {"nonce", nonce_}})};
}

SealedChannel::Heard SealedChannel::take_challenge(std::string_view line) {
  const json object = json::parse(line, nullptr, false);
  const std::string kind = text_of(object, "message");
  if (kind == "refuse") return {.refused = Refuse{on_one_line(text_of(object, "reason"), longest_refusal), false}};
  const std::string nonce = kind == "challenge" && !has_keys_ ? text_of(object, "nonce") : "";
  if (!is_nonce(nonce)) return broken(side_, "it does not greet as the coordinator of a muster run does");
  make_keys(nonce_, nonce);
  return {.reply = seal(proof)};
}

SealedChannel::Heard SealedChannel::take_sealed(std::string_view line) {
  const bool long_enough = line.size() > seal_size && line[seal_size - 1] == ' ';
  const std::string_view text = long_enough ? line.substr(seal_size) : std::string_view();
  if (!long_enough || !equal_in_constant_time(line.substr(0, seal_size - 1), seal_of(incoming_key_, opened_, text)))
    return broken(side_, established_             ? "a line has the wrong seal: somebody interferes with the connection"
                         : side_ == Side::agent ? "it does not know the secret of this run"
                                                : different_secrets);
  ++opened_;
  if (established_) return {.message = text};
  established_ = true;
  return {.reply = side_ == Side::coordinator ? seal(proof) : ""};
}

std::string SealedChannel::seal(std::string_view line) {
  if (!has_keys_) throw std::logic_error("a seal before the handshake");
  if (!line.ends_with('\n')) throw std::logic_error("a line without its end");
  line.remove_suffix(1);
  return fmt::format("{} {}\n", seal_of(outgoing_key_, sealed_++, line), line);
}

void SealedChannel::make_keys(std::string_view agent_nonce, std::string_view coordinator_nonce) {
  const auto key = [&](std::string_view direction) {
    return hmac_sha256(secret_, fmt::format("muster {} {} {}", direction, agent_nonce, coordinator_nonce));
  };
  const HmacCode from_agent = key("from the agent"), from_coordinator = key("from the coordinator");
  outgoing_key_ = side_ == Side::agent ? from_agent : from_coordinator;
  incoming_key_ = side_ == Side::agent ? from_coordinator : from_agent;
  has_keys_ = true;
}

}  // namespace muster::rendezvous
