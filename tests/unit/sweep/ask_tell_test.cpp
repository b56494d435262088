#include "sweep/ask_tell.hpp"

#include <gtest/gtest.h>

#include <sstream>

#include "sweep/trial_command.hpp"

namespace muster::sweep {
namespace {

using json = nlohmann::ordered_json;

SweepSpec spec_of(std::string_view more) {
  return read_sweep_spec(
             "metric: m\ngoal: maximize\nmethod: grid\nparameters: {a: [1, 2, 3], b: [x]}\n" + std::string(more),
             "sweep.yaml")
      .value();
}

class Session {
 public:
  explicit Session(std::string_view more = "") : spec_(spec_of(more)) {}

  json say(std::string_view line) { return json::parse(talk_.answer(line).value()); }
  double now = 0;
  MemoryLedger ledger{"s"};

 private:
  SweepSpec spec_;
  AskTell talk_{spec_, ledger, [this] { return now; }};
};

TEST(AskTell, GivesTrialsOutUntilNothingIsLeft) {
  Session session;
  EXPECT_EQ(session.say(R"({"ask": true})"), json::parse(R"({"trial": "s.r.0", "parameters": {"a": 1, "b": "x"}})"));
  EXPECT_EQ(session.say(R"({"ask": true})")["parameters"]["a"], 2);
  EXPECT_EQ(session.say(R"({"ask": true})")["trial"], "s.r.2");
  EXPECT_EQ(session.say(R"({"ask": true})"), json::parse(R"({"end": "nothing is left to try"})"));
}

TEST(AskTell, RemembersWhatItIsTold) {
  Session session;
  session.say(R"({"ask": true})");
  session.say(R"({"ask": true})");
  EXPECT_EQ(session.say(R"({"tell": "s.r.1", "score": 2.5, "cost_seconds": 4})"), json::parse(R"({"told": "s.r.1"})"));
  session.now = 3;
  session.say(R"({"tell": "s.r.0", "failed": true, "reason": "lost"})");
  const auto trials = session.ledger.trials().value();
  EXPECT_TRUE(trials.running.empty());
  EXPECT_EQ(trials.finished[0].score, 2.5);
  EXPECT_EQ(trials.finished[0].cost_seconds, 4);
  EXPECT_TRUE(trials.finished[1].failed());
  EXPECT_EQ(trials.finished[1].cost_seconds, 3);  // since it was asked for
  EXPECT_EQ(session.say(R"({"best": 5})")["best"].size(), 1u);
  EXPECT_EQ(session.say(R"({"best": 5})")["best"][0]["trial"], "s.r.1");
}

TEST(AskTell, EndsAtALimit) {
  Session session("limits: {trials: 1}");
  session.say(R"({"ask": true})");
  EXPECT_EQ(session.say(R"({"ask": true})"), json::parse(R"({"end": "1 of 1 trial"})"));
  Session timed("limits: {seconds: 5}");
  timed.now = 6;
  EXPECT_EQ(timed.say(R"({"ask": true})"), json::parse(R"({"end": "6 of 5 seconds"})"));
}

TEST(AskTell, SaysWhetherATrialGoesOn) {
  Session session("early_stop: {min_steps: 10, max_steps: 100, eta: 3}");
  for (int i = 0; i < 3; ++i) session.say(R"({"ask": true})");
  EXPECT_EQ(session.say(R"({"report": "s.r.0", "step": 10, "score": 0.5})"), json::parse(R"({"go_on": true})"));
  session.say(R"({"report": "s.r.1", "step": 10, "score": 0.4})");
  EXPECT_EQ(session.say(R"({"report": "s.r.2", "step": 10, "score": 0.1})"), json::parse(R"({"go_on": false})"));
  session.say(R"({"tell": "s.r.2", "score": 0.1})");
  EXPECT_TRUE(session.ledger.trials()->finished[0].stopped_early);
}

TEST(AskTell, RefusesWhatCannotBeMeantAndGoesOn) {
  Session session;
  EXPECT_EQ(session.say(R"({"tell": "s.r.0", "score": 1})")["try"], "ask for one first");
  session.say(R"({"ask": true})");
  for (const std::string_view line :
       {R"({"tell": "s.r.9", "score": 1})", R"({"tell": "s.r.0"})", R"({"tell": "s.r.0", "score": "high"})",
        R"({"tell": 3, "score": 1})", R"({"report": "s.r.0", "score": 1})", R"({"best": 0})", R"({"order": "ask"})",
        R"([1])", R"(ask)", R"({"ask": true)"}) {
    const json reply = session.say(line);
    EXPECT_TRUE(reply.contains("error")) << line << reply;
    EXPECT_FALSE(reply["try"].get<std::string>().empty()) << line;
  }
  EXPECT_EQ(session.say(R"({"tell": "s.r.0", "score": 1})")["told"], "s.r.0");
}

TEST(AskTell, AnswersEveryLineOfAStream) {
  const SweepSpec spec = spec_of("");
  MemoryLedger ledger("s", {{"s.r.0", {{"a", std::int64_t{1}}, {"b", "x"}}, 1.0, 1}});
  AskTell session(spec, ledger, [] { return 0.0; });
  std::istringstream in("{\"ask\": true}\n\n{\"best\": 1}");
  std::ostringstream out;
  EXPECT_TRUE(serve_ask_tell(session, in, out));
  EXPECT_EQ(out.str(),
            "{\"trial\":\"s.r.1\",\"parameters\":{\"a\":2,\"b\":\"x\"}}\n"
            "{\"best\":[{\"trial\":\"s.r.0\",\"parameters\":{\"a\":1,\"b\":\"x\"},\"score\":1.0,\"cost_seconds\":1.0,"
            "\"failed\":false}]}\n");
}

TEST(TrialCommand, HasItsSettingsInTheFormThatIsAskedFor) {
  const Settings settings{{"lr", 0.1}, {"flag", true}, {"off", false}, {"name", "a b"}};
  const TrialCommand surroundings{"train.py", [](std::string_view name) -> std::optional<std::string> {
                                    if (name == "HOME") return "/home/me";
                                    return std::nullopt;
                                  }};
  const auto expand = [&](std::vector<std::string> words) {
    return expand_command(words, settings, surroundings).value();
  };
  EXPECT_EQ(expand({"${env}", "${interpreter}", "${program}", "${args}"}),
            (std::vector<std::string>{"/usr/bin/env", "python", "train.py", "--lr=0.1", "--flag=true", "--off=false",
                                      "--name=a b"}));
  EXPECT_EQ(expand({"${args_no_hyphens}"}), (std::vector<std::string>{"lr=0.1", "flag=true", "off=false", "name=a b"}));
  EXPECT_EQ(expand({"${args_no_boolean_flags}"}), (std::vector<std::string>{"--lr=0.1", "--flag", "--name=a b"}));
  EXPECT_EQ(expand({"${args_json}"}), (std::vector<std::string>{R"({"lr":0.1,"flag":true,"off":false,"name":"a b"})"}));
  EXPECT_EQ(expand({"${envvar:HOME}/data", "$x", "${"}), (std::vector<std::string>{"/home/me/data", "$x", "${"}));
  EXPECT_FALSE(expand_command({"${envvar:NONE}"}, settings, surroundings));
}

TEST(TrialCommand, RefusesMarksThatItDoesNotKnow) {
  EXPECT_FALSE(check_command_word("${args}"));
  EXPECT_FALSE(check_command_word("x${program}y${envvar:A}"));
  EXPECT_TRUE(check_command_word("${args_json_file}"));
  EXPECT_TRUE(check_command_word("--x=${args}"));
  EXPECT_TRUE(check_command_word("${envvar:}"));
}

}  // namespace
}  // namespace muster::sweep
