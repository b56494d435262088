#include "job/generate/prompt_file.hpp"

#include <gtest/gtest.h>

#include "testing/scratch_folder.hpp"

namespace muster::job {
namespace {

class PromptFileTest : public ::testing::Test {
 protected:
  std::string write(std::string_view name, std::string_view text) { return folder_.write(name, text).string(); }

  std::vector<PromptRow> rows(const std::string& path, PromptUse use = PromptUse::prompts) {
    std::vector<PromptRow> found;
    auto file = PromptFile::open(path, use);
    EXPECT_TRUE(file) << file.error().what;
    while (file) {
      auto row = file->next();
      EXPECT_TRUE(row) << row.error().what;
      if (!row || !*row) break;
      found.push_back(std::move(**row));
    }
    return found;
  }

  testing::ScratchFolder folder_;
};

TEST_F(PromptFileTest, ATextFileHasOnePromptALineAndEmptyLinesAreNone) {
  const auto found = rows(write("a.txt",
                                "\xEF\xBB\xBF"
                                "first\r\n\n  \n{\"not\": json}\nlast"));
  ASSERT_EQ(found.size(), 3u);
  EXPECT_EQ(found[0].prompt, "first");
  EXPECT_EQ(found[1].prompt, "{\"not\": json}");
  EXPECT_EQ(found[1].index, 1);
  EXPECT_EQ(found[1].line, 4);
  EXPECT_EQ(found[2].prompt, "last");
}

TEST_F(PromptFileTest, ARowNamesOneOfTheAdaptersOrNone) {
  const auto adapter_of = [](std::string_view row) -> std::optional<std::int64_t> {
    const auto parsed = parse_prompt_row(row, "rows", PromptUse::prompts, {"formal", "pirate"});
    return parsed ? std::optional(parsed->adapter) : std::nullopt;
  };
  EXPECT_EQ(adapter_of(R"({"prompt": "a"})"), 0);
  EXPECT_EQ(adapter_of(R"({"prompt": "a", "adapter": null})"), 0);
  EXPECT_EQ(adapter_of(R"({"prompt": "a", "adapter": "pirate"})"), 1);
  EXPECT_EQ(adapter_of(R"({"prompt": "a", "adapter": ""})"), -1);
  EXPECT_EQ(adapter_of(R"({"prompt": "a", "adapter": "pirates"})"), std::nullopt);
  EXPECT_EQ(adapter_of(R"({"prompt": "a", "adapter": 1})"), std::nullopt);
}

TEST_F(PromptFileTest, JsonLinesCarryEverythingAPromptCanHave) {
  const auto found =
      rows(write("a.jsonl", R"({"prompt": "a", "id": "x", "max_new_tokens": 7, "answer": 42})"
                            "\n"
                            R"({"messages": [{"role": "user", "content": "b"}], "id": 3, "tools": [{"z": 1, "a": 2}],)"
                            R"( "add_generation_prompt": false, "template_variables": {"k": 1}})"
                            "\n"));
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[0].prompt, "a");
  EXPECT_EQ(found[0].id, "x");
  EXPECT_EQ(found[0].max_new_tokens, 7);
  EXPECT_FALSE(found[1].prompt);
  EXPECT_EQ(found[1].messages.dump(), R"([{"role":"user","content":"b"}])");
  EXPECT_EQ(found[1].id, 3);
  EXPECT_EQ(found[1].tools.dump(), R"([{"z":1,"a":2}])");  // in the order they were written
  EXPECT_EQ(found[1].add_generation_prompt, false);
  EXPECT_EQ(found[1].template_variables.dump(), R"({"k":1})");
}

TEST_F(PromptFileTest, AFileOfAnotherNameIsWhatItsFirstLineLooksLike) {
  EXPECT_EQ(rows(write("a", "\n {\"prompt\": \"json\"}\n"))[0].prompt, "json");
  EXPECT_EQ(rows(write("b.prompts", "text\n{\"prompt\": \"text, too\"}\n"))[1].prompt, "{\"prompt\": \"text, too\"}");
}

TEST_F(PromptFileTest, EveryWrongRowIsNamedWithItsLine) {
  const std::string path = write("bad.jsonl",
                                 "{\"prompt\": \"good\"}\n"
                                 "{\"question\": \"b\"}\n"
                                 "[1]\n"
                                 "{\"prompt\": 5}\n"
                                 "{\"prompt\": \"a\", \"messages\": []}\n"
                                 "{\"prompt\": \"a\", \"max_new_tokens\": 0}\n"
                                 "{\"prompt\": \"a\", \"max_new_token\": 5}\n"
                                 "{\"prompt\": \"a\", \"id\": [1]}\n"
                                 "{\"prompt\": \"\xff\"}\n"
                                 "{\"prompt\": \"cut\n");
  const auto checked = check_prompts(PromptFile::open(path, PromptUse::prompts).value());
  ASSERT_FALSE(checked);
  EXPECT_EQ(checked.error().kind, Error::Kind::bad_input);
  const std::string& what = checked.error().what;
  for (const auto& [line, words] : {std::pair{2, "neither \"prompt\" nor \"messages\""},
                                    {3, ""},
                                    {4, "\"prompt\" is 5"},
                                    {5, "both \"prompt\" and \"messages\""},
                                    {6, "\"max_new_tokens\" is 0"},
                                    {7, "did you mean \"max_new_tokens\""},
                                    {8, "\"id\" is a list"},
                                    {9, "UTF-8"},
                                    {10, ""}}) {
    const auto begin = what.find(path + ":" + std::to_string(line) + ":");
    ASSERT_NE(begin, std::string::npos) << "line " << line << " in\n" << what;
    EXPECT_NE(what.substr(begin, what.find('\n', begin) - begin).find(words), std::string::npos) << what;
  }
  EXPECT_EQ(what.find(path + ":1:"), std::string::npos);
}

TEST_F(PromptFileTest, ScoringNeedsCompletionsAndDecodingTokens) {
  const std::string pairs = write("pairs.jsonl", "{\"prompt\": \"a\", \"completion\": \" b\"}\n");
  EXPECT_EQ(rows(pairs, PromptUse::scores)[0].completion, " b");
  EXPECT_EQ(rows(write("t.jsonl", "{\"tokens\": [1, 2]}\n"), PromptUse::decoding)[0].tokens,
            (std::vector<std::int32_t>{1, 2}));
  for (const auto& [use, text] : {std::pair{PromptUse::scores, "{\"prompt\": \"a\"}\n"},
                                  {PromptUse::decoding, "{\"prompt\": \"a\"}\n"},
                                  {PromptUse::decoding, "{\"tokens\": [1, -2]}\n"},
                                  {PromptUse::decoding, "{\"tokens\": 3}\n"}})
    EXPECT_FALSE(check_prompts(PromptFile::open(write("wrong.jsonl", text), use).value())) << text;
  EXPECT_FALSE(check_prompts(PromptFile::open(write("wrong.txt", "text\n"), PromptUse::scores).value()));
}

TEST_F(PromptFileTest, CountsThePromptsOfAFileAndRefusesOneWithoutAny) {
  std::string text;
  for (int i = 0; i < 5000; ++i) text += "prompt " + std::to_string(i) + "\n";
  EXPECT_EQ(*check_prompts(PromptFile::open(write("many.txt", text), PromptUse::prompts).value()), 5000);
  EXPECT_FALSE(check_prompts(PromptFile::open(write("none.txt", "\n\n"), PromptUse::prompts).value()));
}

TEST_F(PromptFileTest, AMissingFileIsToldWithHowAPromptItselfIsGiven) {
  const auto file = PromptFile::open("What is the capital of France?", PromptUse::prompts);
  ASSERT_FALSE(file);
  EXPECT_EQ(file.error().kind, Error::Kind::bad_input);
  EXPECT_NE(file.error().remedy.find("takes a prompt itself without -p"), std::string::npos);
  EXPECT_FALSE(PromptFile::open(folder_.path().string(), PromptUse::prompts));
}

}  // namespace
}  // namespace muster::job
