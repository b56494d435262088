#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>

#include "wire/event.hpp"
#include "json/fields.hpp"
#include "wire/order.hpp"

namespace muster::wire {
namespace {

Assignment sample() {
  Assignment assignment;
  assignment.task = CollectiveCheck{12345, 7};
  assignment.device = DeviceKind::cuda;
  assignment.backend = Backend::nccl;
  assignment.threads = 3;
  assignment.seed = std::numeric_limits<std::uint64_t>::max();
  assignment.timeout = std::chrono::milliseconds(1500);
  return assignment;
}

std::string changed(const std::string& line, const std::function<void(nlohmann::json&)>& change) {
  auto json = nlohmann::json::parse(line);
  change(json);
  return json.dump();
}

TEST(Order, EachKindComesBackAsItWasFromOneLine) {
  const std::vector<Order> orders{sample(), Request{42, R"({"prompt":"a\nb \u00e9"})"}, Pause{}, EndOfRequests{}};
  for (const Order& order : orders) {
    const std::string line = print(order);
    EXPECT_EQ(line.find('\n'), std::string::npos) << line;
    const auto back = parse_order(line);
    ASSERT_TRUE(back) << line;
    EXPECT_EQ(*back, order) << line;
  }
}

TEST(Order, AnAssignmentOfAnotherVersionIsRefusedWithBothVersionsEvenWhereNothingElseIsReadable) {
  const auto refused = parse_order(R"({"order":"assignment","version":2,"task":"something new"})");
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().what.find("version 2"), std::string::npos) << refused.error().what;
  EXPECT_NE(refused.error().what.find("version 1"), std::string::npos) << refused.error().what;
  EXPECT_FALSE(refused.error().remedy.empty());
}

TEST(Order, AMissingOrMistypedFieldIsNamed) {
  const std::string line = print(Order(sample()));
  for (const char* name : {"device", "backend", "threads", "seed", "timeout", "task"}) {
    const auto without = parse_order(changed(line, [&](auto& json) { json.erase(name); }));
    ASSERT_FALSE(without) << name;
    EXPECT_NE(without.error().what.find(name), std::string::npos) << without.error().what;
    const auto mistyped = parse_order(changed(line, [&](auto& json) { json[name] = nlohmann::json::array(); }));
    ASSERT_FALSE(mistyped) << name;
  }
  const auto word = parse_order(changed(line, [](auto& json) { json["device"] = "tpu"; }));
  ASSERT_FALSE(word);
  EXPECT_NE(word.error().what.find("tpu"), std::string::npos) << word.error().what;
  EXPECT_NE(word.error().what.find("cpu, cuda"), std::string::npos) << word.error().what;
}

TEST(Order, ANumberThatDoesNotFitItsFieldIsRefused) {
  const std::string line = print(Order(sample()));
  for (const nlohmann::json& value : {nlohmann::json(4294967296), nlohmann::json(-1e30), nlohmann::json(1.5)})
    EXPECT_FALSE(parse_order(changed(line, [&](auto& json) { json["threads"] = value; }))) << value;
  EXPECT_FALSE(parse_order(changed(line, [](auto& json) { json["seed"] = -1; })));
}

TEST(Order, AFieldThatIsNotKnownIsSkippedAndAKindThatIsNotKnownIsNamed) {
  EXPECT_TRUE(parse_order(changed(print(Order(sample())), [](auto& json) { json["colour"] = "red"; })));
  const auto unknown = parse_order(R"({"order":"dance"})");
  ASSERT_FALSE(unknown);
  EXPECT_NE(unknown.error().what.find("dance"), std::string::npos) << unknown.error().what;
}

TEST(Order, WhatIsNoObjectIsRefused) {
  for (const char* line : {"", "[]", "null", "{", "{\"order\":", "{\"order\":3}", "\xff\xfe", "{}"})
    EXPECT_FALSE(parse_order(line)) << line;
  EXPECT_FALSE(parse_order(std::string(100000, '[')));
  EXPECT_FALSE(parse_order(R"({"order":"request","index":1,"row":)" + std::string(100000, '[')));
}

TEST(Event, EachKindComesBackAsItWasFromOneLineWithTimeEventAndRank) {
  const auto time = std::chrono::system_clock::time_point(std::chrono::milliseconds(1794753311453));
  const std::vector<EventBody> bodies{Hello{1, 4711, "muster-worker 1", "AVX512_CORE_BF16"},
                                      Hello{},
                                      Ready{"cuda:1"},
                                      Want{3},
                                      Progress{"loading", 3, 10},
                                      Progress{"loading", 3, std::nullopt},
                                      Token{9, 2, "é\n"},
                                      TaskResult{9, R"({"text":"\n"})"},
                                      Failed{{Error::Kind::refused, "what", "remedy"}, true},
                                      Done{}};
  for (const EventBody& body : bodies) {
    const Event event{time, 5, body};
    const std::string line = print(event);
    EXPECT_EQ(line.find('\n'), std::string::npos) << line;
    const auto json = nlohmann::json::parse(line);
    EXPECT_TRUE(json.contains("time") && json.contains("event") && json["rank"] == 5) << line;
    const auto back = parse_event(line);
    ASSERT_TRUE(back) << line << back.error().what;
    EXPECT_EQ(*back, event) << line;
  }
}

TEST(Event, TextThatIsNoUtf8StillMakesALineThatCanBeRead) {
  const auto back = parse_event(print(Event{{}, 0, Token{0, 0, "a\xff"}}));
  ASSERT_TRUE(back);
  EXPECT_EQ(std::get<Token>(back->body).text, "a\xef\xbf\xbd");
}

TEST(Event, ANumberWithoutAnEndArrivesAsOneThatIsNone) {
  TrainStep step;
  step.loss = std::numeric_limits<double>::infinity();
  const auto back = parse_event(print(Event{{}, 0, step}));
  ASSERT_TRUE(back) << back.error().what;
  EXPECT_TRUE(std::isnan(std::get<TrainStep>(back->body).loss));
}

TEST(Event, ATimeThatIsNoneAndAnUnknownEventAreRefused) {
  EXPECT_FALSE(parse_event(R"({"time":1e300,"event":"done","rank":0})"));
  EXPECT_FALSE(parse_event(R"({"time":"now","event":"done","rank":0})"));
  EXPECT_FALSE(parse_event(R"({"time":1,"event":"party","rank":0})"));
  EXPECT_FALSE(parse_event(R"({"time":1,"event":"done"})"));
  EXPECT_FALSE(
      parse_event(R"({"time":1,"event":"failed","rank":0,"kind":"odd","what":"","remedy":"","consequence":false})"));
}

TEST(CollectiveReport, ComesBackAsItWas) {
  const CollectiveReport report{"gloo", "cpu", 2, 7, 0.125};
  const auto back = parse_fields<CollectiveReport>(print_fields(report), "a report");
  ASSERT_TRUE(back);
  EXPECT_EQ(*back, report);
}

}  // namespace
}  // namespace muster::wire
