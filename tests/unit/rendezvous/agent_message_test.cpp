#include "rendezvous/agent_message.hpp"

#include <gtest/gtest.h>

#include <random>

#include "testing/contains.hpp"

namespace muster::rendezvous {
namespace {

using std::chrono::milliseconds;
using testing::contains;

std::string_view without_newline(std::string_view line) { return line.substr(0, line.size() - 1); }

template <class Kind>
Kind returned_by_agent(const Kind& message) {
  const auto decoded = decode_agent_message(without_newline(encode(AgentMessage(message))));
  EXPECT_TRUE(decoded) << (decoded ? "" : decoded.error().what);
  return std::get<Kind>(decoded.value());
}

template <class Kind>
Kind returned_by_coordinator(const Kind& message) {
  const auto decoded = decode_coordinator_message(without_newline(encode(CoordinatorMessage(message))));
  EXPECT_TRUE(decoded) << (decoded ? "" : decoded.error().what);
  return std::get<Kind>(decoded.value());
}

std::string refusal_of(std::string_view line) {
  const auto decoded = decode_agent_message(line);
  EXPECT_FALSE(decoded) << line;
  return decoded ? "" : decoded.error().what;
}

TEST(AgentMessage, IsOneLineThatBeginsWithTheFirstByteOfAnAgent) {
  for (const AgentMessage& message :
       {AgentMessage(Join{}), AgentMessage(Alive{}), AgentMessage(Failed{0, {}, "a\nb"})}) {
    const std::string line = encode(message);
    EXPECT_EQ(line.front(), agent_first_byte);
    EXPECT_EQ(line.find('\n'), line.size() - 1);
  }
}

TEST(AgentMessage, BringsEveryFieldOfAJoin) {
  Join join;
  join.run_id = "run \"7\"";
  join.host = "nöde-3";
  join.pid = 4'000'000'000;
  join.role = "trainer";
  join.local_world_size = 8;
  join.node_rank = 2;
  join.leads = true;
  const Join other = returned_by_agent(join);
  EXPECT_EQ(other.protocol, agent_protocol);
  EXPECT_EQ(other.run_id, join.run_id);
  EXPECT_EQ(other.host, join.host);
  EXPECT_EQ(other.pid, join.pid);
  EXPECT_EQ(other.role, join.role);
  EXPECT_EQ(other.local_world_size, 8);
  EXPECT_EQ(other.node_rank, 2);
  EXPECT_TRUE(other.leads);
  join.node_rank.reset();
  EXPECT_EQ(returned_by_agent(join).node_rank, std::nullopt);
}

TEST(AgentMessage, BringsWhatAnAgentReports) {
  returned_by_agent(Alive{});
  EXPECT_EQ(returned_by_agent(Succeeded{3}).round, 3);
  EXPECT_EQ(returned_by_agent(Stopped{4}).round, 4);
  EXPECT_EQ(returned_by_agent(Leaving{"SIGTERM"}).reason, "SIGTERM");
  const Failed failed = returned_by_agent(Failed{5, milliseconds(120), R"({"rank": 3, "lines": ["a\nb"]})"});
  EXPECT_EQ(failed.round, 5);
  EXPECT_EQ(failed.age, milliseconds(120));
  EXPECT_EQ(failed.failure, R"({"rank": 3, "lines": ["a\nb"]})");
}

TEST(AgentMessage, BringsWhatTheCoordinatorOrders) {
  returned_by_coordinator(Alive{});
  const Welcome welcome = returned_by_coordinator(Welcome{milliseconds(250), milliseconds(1250)});
  EXPECT_EQ(welcome.alive_interval, milliseconds(250));
  EXPECT_EQ(welcome.silence, milliseconds(1250));
  const Start start = returned_by_coordinator(Start{7, 1, 2, 3, 16, 24, 8, 12});
  EXPECT_EQ(start.round, 7);
  EXPECT_EQ(start.restart_count, 1);
  EXPECT_EQ(start.group_rank, 2);
  EXPECT_EQ(start.group_world_size, 3);
  EXPECT_EQ(start.first_rank, 16);
  EXPECT_EQ(start.world_size, 24);
  EXPECT_EQ(start.first_role_rank, 8);
  EXPECT_EQ(start.role_world_size, 12);
  const Stop stop = returned_by_coordinator(Stop{7, "node-4 joined"});
  EXPECT_EQ(stop.round, 7);
  EXPECT_EQ(stop.reason, "node-4 joined");
  const Refuse refuse = returned_by_coordinator(Refuse{"full", true});
  EXPECT_EQ(refuse.reason, "full");
  EXPECT_TRUE(refuse.retry);
}

TEST(AgentMessage, BringsAFinishWithAndWithoutAFailure) {
  const Finish failed = returned_by_coordinator(Finish{false, "rank 3 failed", "{}"});
  EXPECT_FALSE(failed.success);
  EXPECT_EQ(failed.reason, "rank 3 failed");
  EXPECT_EQ(failed.failure, "{}");
  const Finish succeeded = returned_by_coordinator(Finish{true, "done", std::nullopt});
  EXPECT_TRUE(succeeded.success);
  EXPECT_EQ(succeeded.failure, std::nullopt);
}

TEST(AgentMessage, SkipsFieldsItDoesNotKnow) {
  const auto decoded = decode_agent_message(R"({"message":"stopped","round":2,"mood":["good",{"very":true}]})");
  ASSERT_TRUE(decoded);
  EXPECT_EQ(std::get<Stopped>(*decoded).round, 2);
}

TEST(AgentMessage, RefusesAWrongTypeAndNamesTheField) {
  EXPECT_TRUE(contains(refusal_of(R"({"message":"stopped","round":"2"})"), "\"round\"", "\"2\"", "whole number"));
  EXPECT_TRUE(contains(refusal_of(R"({"message":"stopped","round":2.0})"), "\"round\"", "2.0"));
  EXPECT_TRUE(contains(refusal_of(R"({"message":"stopped"})"), "\"round\" is missing"));
  EXPECT_TRUE(contains(refusal_of(R"({"message":"leaving","reason":null})"), "\"reason\"", "null"));
  EXPECT_TRUE(contains(refusal_of(R"({"message":7})"), "\"message\"", "7"));
  EXPECT_TRUE(contains(refusal_of(R"({"message":"dance"})"), "\"dance\"", "unknown"));
}

TEST(AgentMessage, RefusesANumberOutsideItsRange) {
  EXPECT_TRUE(contains(refusal_of(R"({"message":"stopped","round":-1})"), "-1"));
  EXPECT_TRUE(contains(refusal_of(R"({"message":"stopped","round":2147483648})"), "2147483648"));
  EXPECT_TRUE(contains(refusal_of(R"({"message":"stopped","round":18446744073709551615})"), "18446744073709551615"));
  EXPECT_TRUE(contains(refusal_of(R"({"message":"failed","round":0,"age_ms":-5,"failure":""})"), "age_ms", "-5"));
  EXPECT_FALSE(decode_coordinator_message(
      R"({"message":"start","round":0,"restart_count":0,"group_rank":3,"group_world_size":3,"first_rank":0,)"
      R"("world_size":3,"first_role_rank":0,"role_world_size":3})"));
  EXPECT_FALSE(decode_coordinator_message(R"({"message":"welcome","alive_interval_ms":0,"silence_ms":5000})"));
}

TEST(AgentMessage, RefusesWhatIsNoObject) {
  for (const std::string_view line : {"", "{", "[]", "7", "null", "{\"message\":\"alive\"} trailing", "\xff\xfe"})
    EXPECT_FALSE(decode_agent_message(line)) << line;
}

TEST(AgentMessage, SurvivesDeepNesting) {
  const std::size_t depth = longest_message / 2 - 50;
  const std::string nested = std::string(depth, '[') + std::string(depth, ']');
  EXPECT_TRUE(contains(refusal_of("{\"message\":" + nested + "}"), "\"message\" is of type array"));
  EXPECT_TRUE(decode_agent_message("{\"message\":\"alive\",\"mood\":" + nested + "}"));
}

TEST(AgentMessage, RefusesALineThatIsLongerThanTheLongest) {
  const std::string padding(longest_message, ' ');
  EXPECT_FALSE(decode_agent_message(R"({"message":"alive"})" + padding));
}

TEST(AgentMessage, ReadsTheProtocolOfAJoinThatIsOtherwiseStrange) {
  const auto decoded = decode_agent_message(R"({"message":"join","protocol":9,"run_id":{"new":"form"}})");
  ASSERT_TRUE(decoded);
  EXPECT_EQ(std::get<Join>(*decoded).protocol, 9);
}

TEST(AgentMessage, LeavesOutAFailureThatDoesNotFit) {
  const std::string line = encode(AgentMessage(Failed{3, milliseconds(7), std::string(longest_message, '"')}));
  EXPECT_LE(line.size(), longest_message);
  const auto decoded = decode_agent_message(without_newline(line));
  ASSERT_TRUE(decoded);
  EXPECT_EQ(std::get<Failed>(*decoded).round, 3);
  EXPECT_EQ(std::get<Failed>(*decoded).failure, "");
}

TEST(AgentMessage, CutsAReasonThatIsTooLong) {
  const Stop stop = returned_by_coordinator(Stop{1, std::string(2 * longest_message, '\xff')});
  EXPECT_LT(stop.reason.size(), longest_message);
  EXPECT_FALSE(stop.reason.empty());
}

TEST(AgentMessage, ReplacesBytesThatAreNoText) {
  Join join;
  join.host = "node-\xff";
  EXPECT_EQ(returned_by_agent(join).host, "node-\xef\xbf\xbd");
}

TEST(AgentMessage, SurvivesMutatedLines) {
  Join join;
  join.node_rank = 3;
  std::vector<std::string> lines{encode(AgentMessage(join)), encode(AgentMessage(Failed{1, milliseconds(5), "{}"})),
                                 encode(CoordinatorMessage(Start{})),
                                 encode(CoordinatorMessage(Finish{false, "r", "{}"}))};
  std::mt19937 chance(7);
  int read = 0;
  for (int i = 0; i < 20000; ++i) {
    std::string line = lines[chance() % lines.size()];
    line.pop_back();
    for (unsigned changes = chance() % 4; changes > 0; --changes) {
      const std::size_t at = chance() % line.size();
      if (chance() % 3 == 0) line.erase(at, 1 + chance() % 4);
      if (!line.empty()) line[chance() % line.size()] = static_cast<char>(chance() % 256);
      if (line.empty()) break;
    }
    read += decode_agent_message(line) ? 1 : 0;
    read += decode_coordinator_message(line) ? 1 : 0;
  }
  EXPECT_GT(read, 1000);
}

TEST(AgentMessage, CleansWhatIsShownToPeople) {
  Join join;
  join.host = "node\x1b]0;owned\x07\n1";
  join.role = "a\trole";
  std::string line = encode(AgentMessage(join));
  const auto back = std::get<Join>(decode_agent_message(std::string_view(line).substr(0, line.size() - 1)).value());
  EXPECT_EQ(back.host, "node\\x1b]0;owned\\x07\\n1");
  EXPECT_EQ(back.role, "a\\trole");
  line = encode(CoordinatorMessage(Stop{1, "\x1b[2J joined"}));
  const auto stop = decode_coordinator_message(std::string_view(line).substr(0, line.size() - 1)).value();
  EXPECT_EQ(std::get<Stop>(stop).reason, "\\x1b[2J joined");
}

}  // namespace
}  // namespace muster::rendezvous
