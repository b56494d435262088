#include "schedule/journal.hpp"

#include <gtest/gtest.h>

#include "machine.hpp"

namespace muster::schedule {
namespace {

Job full_job() {
  Job full = job("pita_llama_gsm8k_r2.train", 2);
  full.gpus.maximum = 8;
  full.after = {{"a"}};
  full.after_ok = {{"b"}, {"c"}};
  full.chain = ChainPlace{"pita_llama_gsm8k", 2};
  full.priority = -3;
  full.retries = 2;
  full.timeout = seconds(3600);
  full.heartbeat = seconds(60);
  full.prediction = seconds(1800);
  full.label = "sft \"small\"\n";
  full.kind = "train";
  return full;
}

TEST(JournalLine, IsReadBackAsItWasWritten) {
  const std::vector<Happening> all{Rules{seconds(5), 3},
                                   GpuFound{"GPU-8932f937"},
                                   GpuLost{GpuNumber{1}, "Xid 79"},
                                   GpuHeld{GpuNumber{0}, "pid 4711 (alice)"},
                                   GpuReturned{GpuNumber{2}},
                                   Submitted{{full_job(), job("plain")}},
                                   Submitted{},
                                   Cancelled{{"a"}},
                                   StartFailed{{"a"}, "no such file"},
                                   Heartbeat{{"a"}},
                                   Ended{{"a"}, Ended::How::killed, 9},
                                   Ended{{"a"}, Ended::How::out_of_memory, 0},
                                   Tick{}};
  EXPECT_EQ(std::variant_size_v<Happening>, 11u) << "a kind of event was added: add it here too";
  for (const Happening& what : all) {
    const Event event{at(1'769'868'131), what};
    const std::string line = to_line(event);
    EXPECT_EQ(line.find('\n'), std::string::npos);
    const auto read = read_line(line, "journal");
    ASSERT_TRUE(read) << line << read.error().what;
    EXPECT_EQ(*read, event) << line;
  }
}

TEST(JournalLine, LooksLikeThis) {
  EXPECT_EQ(to_line({at(2), Submitted{{lasting(job("a", 4), 60)}}}),
            R"({"time_ms":2000,"event":"submitted","jobs":[{"id":"a","gpus":4,"gpus_most":4,"prediction_ms":60000}]})");
}

TEST(JournalLine, ThatIsDamagedIsRefusedWithItsPlace) {
  for (const char* line :
       {"", "{", "[]", "{}", R"({"time_ms":1})", R"({"time_ms":1,"event":"party"})",
        R"({"time_ms":"1","event":"tick"})", R"({"time_ms":1.5,"event":"tick"})",
        R"({"time_ms":18446744073709551615,"event":"tick"})",
        R"({"time_ms":1,"event":"gpu_lost","gpu":99999999999,"reason":""})",
        R"({"time_ms":1,"event":"submitted","jobs":[3]})", R"({"time_ms":1,"event":"submitted","jobs":[{"id":"a"}]})",
        R"({"time_ms":1,"event":"submitted","jobs":[{"id":"a","gpus":1,"chain":4}]})",
        R"({"time_ms":1,"event":"submitted","jobs":[{"id":"a","gpus":1,"after":[4]}]})",
        R"({"time_ms":1,"event":"ended","job":"a","how":"gladly","code":0})"}) {
    const auto read = read_line(line, "journal.jsonl:7");
    ASSERT_FALSE(read) << line;
    EXPECT_EQ(read.error().what.rfind("journal.jsonl:7: ", 0), 0u) << read.error().what;
  }
}

TEST(Journal, EndsBeforeALineThatWasNeverFinished) {
  const std::string whole = to_line({at(1), Tick{}}) + "\n";
  const Journal journal = read_journal(whole + R"({"time_ms":2,"ev)", "journal").value();
  EXPECT_EQ(journal.events.size(), 1u);
  EXPECT_EQ(journal.whole, whole.size());
  EXPECT_FALSE(read_journal(whole + "nonsense\n", "journal"));
}

TEST(Journal, ThatCannotBeIsRefusedByTheEvent) {
  const std::vector<Event> events{{at(0), GpuFound{"0"}}, {at(1), Ended{{"nobody"}}}};
  const auto scheduler = replay(events);
  ASSERT_FALSE(scheduler);
  EXPECT_EQ(scheduler.error().what, "event 2 of the journal cannot be: there is no job nobody");
}

}  // namespace
}  // namespace muster::schedule
