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

Snapshot full_snapshot() {
  Snapshot snapshot;
  snapshot.rules = {seconds(5), 3};
  snapshot.gpus = {{"GPU-1", GpuState::held, at(7), "alice", {}}, {"GPU-2", GpuState::taken, at(8), "", {}}};
  snapshot.links = {{GpuNumber{0}, GpuNumber{1}, 12}};
  JobRecord full;
  full.job = full_job();
  full.state = JobState::stopping;
  full.submitted = at(1);
  full.rank.left = 3;
  full.lane = LengthStep{17};
  full.failures = 1;
  full.postponed = 3;
  full.attempts = 2;
  full.avoided = {GpuNumber{0}};
  full.gpus = {GpuNumber{1}};
  full.started = at(2);
  full.last_sign = at(3);
  full.expected_end = at(4);
  full.stop = StopReason::heartbeat;
  full.ended = at(5);
  full.reason = "killed \"gladly\"";
  full.because = JobIndex{1};
  full.last_end = ProcessEnd{HowEnded::out_of_memory, 9};
  JobRecord plain;
  plain.job = job("plain");
  snapshot.jobs = {full, plain};
  snapshot.reserved = JobIndex{1};
  snapshot.pauses = {StartPause{at(7), "No space left on device"}, StartPause{at(8), "the lease table is in use"}};
  snapshot.lengths = {{"train", seconds(1), seconds(2), 3, LengthStep{40}}};
  return snapshot;
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
                                   Postponed{{"a"}, "No space left on device"},
                                   Postponed{{"a"}, "the lease table is in use", Shortage::gpus},
                                   Heartbeat{{"a"}},
                                   Heartbeat{{"a"}, at(1'769'868'130)},
                                   GpusLinked{{{GpuNumber{0}, GpuNumber{2}, 12}}},
                                   Ended{{"a"}, Ended::How::killed, 9},
                                   Ended{{"a"}, Ended::How::out_of_memory, 0},
                                   Tick{},
                                   full_snapshot()};
  EXPECT_EQ(std::variant_size_v<Happening>, 14u) << "a kind of event was added: add it here too";
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
            R"({"time_ms":2000,"event":"submitted","jobs":[{"id":"a","gpus":4,"gpus_most":4,"prediction_ms":60000}],)"
            R"("crc":"59897d69"})");
}

TEST(JournalLine, WithoutAChecksumIsReadAsEarlierVersionsWroteIt) {
  EXPECT_EQ(read_line(R"({"time_ms":2000,"event":"tick"})", "journal").value(), (Event{at(2), Tick{}}));
}

TEST(JournalLine, WithAnyFlippedBitIsRefusedOrSaysTheSame) {
  const Event event{at(2), Submitted{{lasting(job("a", 4), 60)}}};
  const std::string line = to_line(event);
  int refused = 0;
  for (std::size_t bit = 0; bit < line.size() * 8; ++bit) {
    std::string damaged = line;
    damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ (1 << (bit % 8)));
    const auto read = read_line(damaged, "journal");
    refused += read ? 0 : 1;
    if (read) {
      EXPECT_EQ(*read, event) << damaged;
    }
  }
  EXPECT_GT(refused, static_cast<int>(line.size() * 8) / 2);
}

TEST(JournalLine, ThatIsDamagedIsRefusedWithItsPlace) {
  for (
      const char* line :
      {"", "{", "[]", "{}", R"({"time_ms":1})", R"({"time_ms":1,"event":"party"})", R"({"time_ms":"1","event":"tick"})",
       R"({"time_ms":1.5,"event":"tick"})", R"({"time_ms":18446744073709551615,"event":"tick"})",
       R"({"time_ms":1,"event":"gpu_lost","gpu":99999999999,"reason":""})",
       R"({"time_ms":1,"event":"submitted","jobs":[3]})", R"({"time_ms":1,"event":"submitted","jobs":[{"id":"a"}]})",
       R"({"time_ms":1,"event":"submitted","jobs":[{"id":"a","gpus":1,"chain":4}]})",
       R"({"time_ms":1,"event":"submitted","jobs":[{"id":"a","gpus":1,"after":[4]}]})",
       R"({"time_ms":1,"event":"ended","job":"a","how":"gladly","code":0})",
       R"({"time_ms":1,"event":"gpus_linked","links":[[0,1]]})", R"({"time_ms":1,"event":"snapshot"})",
       R"({"time_ms":1,"event":"snapshot","ageing_ms":5,"without_gpus":1,"gpus":[3],"links":[],"jobs":[],"lengths":[]})",
       R"({"time_ms":1,"event":"snapshot","ageing_ms":5,"without_gpus":1,"gpus":[],"links":[],"jobs":[{"id":"a"}],"lengths":[]})"}) {
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
