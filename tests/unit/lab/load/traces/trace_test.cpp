#include "lab/load/trace.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <sstream>

#include "lab/engine/words.hpp"
#include "lab/load/traces/formats.hpp"
#include "lab/load/workload.hpp"

namespace weir::lab::load {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using traces::token_s;
using Entries = std::vector<TraceEntry>;

Entries entries_of(const std::string& text, std::size_t limit = 0) {
  std::istringstream in(text);
  const auto read = read_trace(in, limit);
  if (const auto* wrong = std::get_if<std::string>(&read)) {
    ADD_FAILURE() << *wrong;
    return {};
  }
  return std::get<Entries>(read);
}

std::string error_of(const std::string& text) {
  std::istringstream in(text);
  const auto read = read_trace(in, 0);
  return std::holds_alternative<std::string>(read) ? std::get<std::string>(read) : "no error";
}

/// Returns the messages of the n-th request of a trace, as they are sent.
std::vector<std::string> sent(const Entries& trace, std::size_t n, std::uint64_t seed = 1) {
  WorkloadSettings settings;
  settings.trace = trace;
  settings.seed = seed;
  Workload workload(settings);
  for (std::size_t i = 0; i < n; ++i) workload.next();
  return workload.messages(*workload.next());
}

TEST(Trace, OfAnUnknownFormatSaysWhichThereAre) {
  for (const char* text :
       {"", "a,b\n", "{\"a\":1}\n", "timestamp,input_length\n", "TIMESTAMP,ContextTokens\n", "[1]\n"}) {
    EXPECT_THAT(error_of(text),
                AllOf(HasSubstr("line 1: expected the columns TIMESTAMP,ContextTokens,GeneratedTokens (Azure) or "),
                      HasSubstr("(BurstGPT), or a line of weir's request log, or {\"chat_id\"")))
        << text;
  }
}

const std::string azure = "TIMESTAMP,ContextTokens,GeneratedTokens\n";

TEST(AzureTrace, ReadsTimesAsSecondsSinceTheFirst) {
  EXPECT_EQ(entries_of(azure + "2023-11-16 23:59:59.5000000,374,44\n2023-11-17 00:00:01.0000000,396,109\r\n\n" +
                       "2023-11-17 00:00:01.2500000,0,0\n"),
            (Entries{{0, 374, 44}, {1.5, 396, 109, {}, 512, {}, 0, 1}, {1.75, 1, 1, {}, 512, {}, 0, 2}}));
}

TEST(AzureTrace, ReadsTheFilesOfEachYear) {
  for (const std::string& text :
       {azure + "2024-05-10 00:00:00.500000+00:00,2162,5\n2024-05-10 00:00:01+00:00,76,15\n",
        azure + "2024-05-10 01:00:00.5+01:00,2162,5\n2024-05-10 00:00:01,76,15\n",
        std::string("TIMESTAMP,NumImages,ContextTokens,GeneratedTokens\r\n2024-10-15T12:00:00.269Z,0,2162,5\r\n"
                    "2024-10-15T12:00:00.769Z,16,76,15\r\n")}) {
    const Entries trace = entries_of(text);
    ASSERT_EQ(trace.size(), 2u) << text;
    EXPECT_EQ(trace[0].prompt_tokens, 2162u);
    EXPECT_EQ(trace[1].output_tokens, 15u);
    EXPECT_EQ(trace[1].at, 0.5);
  }
}

TEST(BurstGptTrace, ReadsSecondsLengthsAndTurns) {
  const Entries plain = entries_of(
      "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n"
      "5,ChatGPT,472,18,490,Conversation log\n45,GPT-4,1087,0,1087,API log\n");
  ASSERT_EQ(plain.size(), 2u);
  EXPECT_EQ(plain[0].prompt_tokens, 472u);
  EXPECT_EQ(plain[1].at, 40);
  EXPECT_EQ(plain[1].output_tokens, 1u) << "a failed request came all the same";
  const std::string columns =
      "Timestamp,Session ID,Elapsed time,Model,Request tokens,Response tokens,Total tokens,Log Type\n";
  const auto row = [](const std::string& at, const std::string& session, const std::string& lasted) {
    return at + "," + session + "," + lasted + ",GPT-4,906,446,1352,Conversation log\n";
  };
  const Entries turns =
      entries_of(columns + row("19440110.0", "a", "43") + row("19440120.0", "b", "2") + row("19440121.5", "b", "2") +
                 row("19440160.0", "a", "5") + row("19440165.0", "", "") + row("19440166.0", "", ""));
  ASSERT_EQ(turns.size(), 6u);
  EXPECT_FALSE(turns[1].parent);
  EXPECT_FALSE(turns[2].parent) << "the turn before ran still";
  EXPECT_EQ(turns[3].parent, 0u);
  EXPECT_DOUBLE_EQ(turns[3].think, 7);
  EXPECT_FALSE(turns[5].parent) << "no session is none";
  EXPECT_THAT(error_of(columns + row("soon", "a", "1")), HasSubstr("line 2: expected 8 fields, of them a time"));
  EXPECT_THAT(error_of(columns + row("1e300", "a", "1")), HasSubstr("line 2: expected 8 fields"));
}

TEST(Trace, MayBeginWithAByteOrderMark) {
  for (const std::string& text :
       {azure + "2023-11-16 18:17:03.9799600,480,10\r\n",
        std::string("Timestamp,Request tokens,Response tokens\n5,480,10\n"),
        std::string(R"({"timestamp":1,"input_length":480,"output_length":10})"),
        std::string(R"({"chat_id":1,"timestamp":1,"input_length":480,"output_length":10})")}) {
    const Entries trace = entries_of("\xef\xbb\xbf" + text);
    ASSERT_EQ(trace.size(), 1u) << text;
    EXPECT_EQ(trace[0].prompt_tokens, 480u);
  }
}

TEST(AzureTrace, NamesTheLineThatIsWrong) {
  const std::string good = azure + "2023-11-16 18:15:46.5,1,1\n";
  for (const std::string bad :
       {"2023-11-16 18:15:47,1", "2023-11-16 18:15:47,1,1,1", "2023-13-16 18:15:47,1,1", "2023-11-16 18:15:47,-1,1",
        "yesterday,1,1", "2023-11-16 18:15:nan,1,1", "2023-11-16 18:15:inf,1,1", "2023-11-16 18:15:1e300,1,1",
        "2023-11-16 18:15:-1,1,1", "2023-11-16 18:2000000000:47,1,1", "2023-11-16 2000000000:15:47,1,1",
        "30000-11-16 18:15:47,1,1", "2023-11-16 18:15:47,10000001,1", "2023-11-16 18:15:47,1,10000001"}) {
    EXPECT_THAT(error_of(good + bad + "\n"), HasSubstr("line 3: expected 3 fields, of them a time")) << bad;
  }
  EXPECT_THAT(error_of(good + "2023-11-16 18:15:45,1,1\n"), HasSubstr("line 3: its time is before"));
  EXPECT_THAT(error_of(azure), HasSubstr("no entries"));
}

TEST(AzureTrace, ReadsRealTraces) {
  const auto file = [](const std::string& name) {
    std::ifstream in(WEIR_TEST_DATA "/traces/" + name);
    return std::string(std::istreambuf_iterator<char>(in), {});
  };
  const Entries conversations = entries_of(file("conv.csv"));
  EXPECT_EQ(conversations.size(), 2000u);
  EXPECT_EQ(entries_of(file("code.csv"), 100).size(), 100u);
  EXPECT_NEAR(conversations[1].at, 4.314579, 1e-6);
}

std::string mooncake(int ms, int input, int output, const std::string& ids) {
  return "{\"timestamp\": " + std::to_string(ms) + ", \"input_length\": " + std::to_string(input) +
         ", \"output_length\": " + std::to_string(output) + ", \"hash_ids\": " + ids + "}\n";
}

TEST(MooncakeTrace, HasMillisecondsLengthsAndBlocks) {
  const Entries trace = entries_of(mooncake(27'482, 600, 52, "[46, 47]") + mooncake(30'535, 10, 0, "[]"));
  ASSERT_EQ(trace.size(), 2u);
  EXPECT_EQ(trace[0].at, 0);
  EXPECT_EQ(trace[0].prompt_tokens, 600u);
  EXPECT_EQ(trace[0].output_tokens, 52u);
  EXPECT_THAT(trace[0].blocks, ElementsAre(46, 47));
  EXPECT_DOUBLE_EQ(trace[1].at, 3.053);
  EXPECT_EQ(trace[1].output_tokens, 1u);
  EXPECT_EQ(entries_of(mooncake(0, 1, 1, "[]") + mooncake(0, 2, 2, "[]"), 1).size(), 1u);
}

TEST(MooncakeTrace, TheSameIdIsTheSameText) {
  const Entries trace = entries_of(mooncake(0, 1100, 1, "[0, 1, 2]") + mooncake(1, 1500, 1, "[0, 1, 3]") +
                                   mooncake(2, 512, 1, "[1]") + mooncake(3, 1100, 1, "[0, 1, 2]"));
  const std::string first = sent(trace, 0).front(), second = sent(trace, 1).front(), third = sent(trace, 2).front();
  EXPECT_EQ(engine::count_tokens(first), 1100u);
  EXPECT_EQ(engine::count_tokens(second), 1500u);
  const auto common = static_cast<std::size_t>(std::ranges::mismatch(first, second).in1 - first.begin());
  EXPECT_EQ(engine::count_tokens(first.substr(0, common)) / 512, 2u) << "two blocks of the prefix are shared";
  EXPECT_LT(engine::count_tokens(first.substr(0, common)), 1024u + 20) << "and no more";
  EXPECT_NE(first.find(third), std::string::npos) << "a block is the same wherever it stands";
  EXPECT_EQ(first, sent(trace, 3).front());
  EXPECT_NE(first, sent(trace, 0, 2).front()) << "another load finds nothing of this one in a cache";
}

TEST(MooncakeTrace, HasOtherTextsEachTimeItBeginsAgain) {
  const Entries trace = entries_of(mooncake(0, 600, 1, "[0, 1]") + mooncake(1, 600, 1, "[0, 2]"));
  const std::string first = sent(trace, 0).front(), again = sent(trace, 2).front(), third = sent(trace, 4).front();
  EXPECT_NE(first.substr(0, 20), again.substr(0, 20));
  EXPECT_NE(again.substr(0, 20), third.substr(0, 20));
  EXPECT_EQ(engine::count_tokens(again), 600u);
  EXPECT_EQ(again.substr(0, 1000), sent(trace, 3).front().substr(0, 1000)) << "within a pass the prefix is shared";
}

TEST(MooncakeTrace, PromptsHaveTheirLengthWhateverTheirBlocks) {
  const Entries trace = entries_of(mooncake(0, 700, 1, "[]") + mooncake(0, 700, 1, "[5]") + mooncake(0, 700, 1, "[5]") +
                                   mooncake(0, 700, 1, "[6, 7, 8, 9]"));
  for (std::size_t i = 0; i < trace.size(); ++i) EXPECT_EQ(engine::count_tokens(sent(trace, i).front()), 700u);
  EXPECT_NE(sent(trace, 1), sent(trace, 2)) << "what no id covers is each request's own";
}

std::string bailian(const std::string& chat, const std::string& parent, double at, int output, const std::string& ids,
                    const std::string& more = "") {
  return "{\"chat_id\": " + chat + ", \"parent_chat_id\": " + parent + ", \"timestamp\": " + std::to_string(at) +
         ", \"input_length\": 40, \"output_length\": " + std::to_string(output) +
         ", \"type\": \"text\", \"turn\": 1, \"hash_ids\": " + ids + more + "}\n";
}

TEST(BailianTrace, HasSecondsAndTurnsThatFollowEachOther) {
  const Entries trace = entries_of(bailian("7", "-1", 10, 100, "[1, 2, 3]") + bailian("8", "-1", 11.5, 1, "[4]") +
                                   bailian("9", "7", 20, 10, "[1, 2, 5]") + bailian("10", "9", 20.1, 1, "[1]") +
                                   bailian("11", "99", 21, 1, "[1]") + bailian("12", "7", 22, 1, "[1]", ", \"think\": 4"));
  ASSERT_EQ(trace.size(), 6u);
  EXPECT_DOUBLE_EQ(trace[1].at, 1.5);
  const std::vector<std::optional<std::size_t>> parents{{}, {}, 0, 2, {}, 0};
  for (std::size_t i = 0; i < trace.size(); ++i) EXPECT_EQ(trace[i].parent, parents[i]) << i;
  EXPECT_DOUBLE_EQ(trace[2].think, 10 - 100 * 0.03);
  EXPECT_EQ(trace[3].think, 0) << "it came before its parent's answer could end";
  EXPECT_EQ(trace[5].think, 4);
}

TEST(BailianTrace, HasBlocksOf16Tokens) {
  const Entries trace =
      entries_of(bailian("7", "-1", 10, 100, "[1, 2, 3]") + bailian("9", "7", 20, 10, "[1, 2, 5]"));
  const std::string first = sent(trace, 0).front(), second = sent(trace, 1).front();
  EXPECT_EQ(engine::count_tokens(first), 40u);
  const auto common = static_cast<std::size_t>(std::ranges::mismatch(first, second).in1 - first.begin());
  EXPECT_EQ(engine::count_tokens(first.substr(0, common)) / 16, 2u);
}

TEST(BailianTrace, NamesTheLineThatIsWrong) {
  const std::string good = bailian("7", "-1", 10, 1, "[1]");
  for (const std::string& bad : {std::string("{}\n"), bailian("null", "-1", 11, 1, "[1]"), bailian("8", "7", 11, -1, "[1]"),
                                 bailian("8", "7", 11, 1, "[1]", ", \"think\": -1")}) {
    EXPECT_THAT(error_of(good + bad), HasSubstr("line 2: expected {\"chat_id\": id")) << bad;
  }
  EXPECT_THAT(error_of(good + bailian("8", "7", 9, 1, "[1]")), HasSubstr("line 2: its time is before"));
}

TEST(BailianTrace, GivesTurnsWhenTheirParentsHaveEnded) {
  WorkloadSettings settings;
  settings.trace = entries_of(bailian("7", "-1", 10, 100, "[1]") + bailian("8", "7", 12, 5, "[1]") +
                              bailian("9", "-1", 13, 6, "[2]") + bailian("10", "7", 14, 7, "[1]") +
                              bailian("11", "10", 30, 8, "[1]"));
  settings.trace_arrivals = settings.turns = true;
  settings.trace_speed = 2;
  Workload workload(settings);
  std::vector<std::pair<std::uint64_t, double>> arrivals;
  while (const auto planned = workload.next()) arrivals.emplace_back(planned->number, planned->at);
  EXPECT_THAT(arrivals, ElementsAre(testing::Pair(0u, 0.0), testing::Pair(2u, 1.5)));
  std::vector<std::pair<std::uint64_t, double>> turns;
  for (const std::uint64_t parent : {0u, 1u, 2u, 3u, 4u})
    for (const Planned& turn : workload.turns_after(parent)) turns.emplace_back(turn.number, turn.at);
  ASSERT_EQ(turns.size(), 3u);
  EXPECT_THAT(turns[0], testing::Pair(1u, 0.0));
  EXPECT_THAT(turns[1], testing::Pair(3u, testing::DoubleNear(0.5, 1e-9)));
  EXPECT_THAT(turns[2], testing::Pair(4u, testing::DoubleNear((16 - 0.21) / 2, 1e-9)));
  EXPECT_EQ(workload.messages(workload.turns_after(0)[1]).front(), sent(settings.trace, 3).front());
}

TEST(MooncakeTrace, NamesTheLineThatIsWrong) {
  const auto line = [](const std::string& at, const std::string& input, const std::string& output) {
    return "{\"timestamp\": " + at + ", \"input_length\": " + input + ", \"output_length\": " + output + "}\n";
  };
  const std::string good = mooncake(5, 1, 1, "[1]");
  for (const std::string& bad :
       {std::string("nonsense\n"), mooncake(6, -1, 1, "[1]"), mooncake(6, 1, 1, "7"), mooncake(6, 1, 1, "[\"a\"]"),
        std::string("{\"timestamp\": 6, \"input_length\": 3}\n"), line("6", "1e300", "1"), line("6", "1", "1e300"),
        line("6", "10000001", "1"), line("1e300", "1", "1"), line("1e999", "1", "1"), line("-1e300", "1", "1")}) {
    EXPECT_THAT(error_of(good + bad), HasSubstr("line 2: expected {\"timestamp\"")) << bad;
  }
  EXPECT_THAT(error_of(good + mooncake(4, 1, 1, "[1]")), HasSubstr("line 2: its time is before"));
  EXPECT_EQ(entries_of(line("6", "10000000", "1")).front().prompt_tokens, 10'000'000u);
}

std::vector<std::uint64_t> lengths_of(const TraceEntry& entry) {
  std::vector<std::uint64_t> lengths;
  for (const auto& part : entry.parts) lengths.push_back(part.tokens);
  return lengths;
}

TEST(AiperfTrace, TurnsOfASessionGoOnFromWhatWasSaid) {
  const Entries trace = entries_of(
      R"({"session_id": "a", "timestamp": 1000, "input_length": 300, "output_length": 40}
{"session_id": "a", "delay": 2000, "input_length": 150, "output_length": 20}
{"session_id": "a", "timestamp": 9000, "input_length": 7, "output_length": 5}
{"session_id": "b", "timestamp": 2000, "input_length": 600, "hash_ids": [8, 9], "output_length": 1}
{"session_id": "b", "context_mode": "message_array_with_responses", "delay": 500, "input_length": 700,)"
      R"( "output_length": 1}
)");
  ASSERT_EQ(trace.size(), 5u);
  EXPECT_THAT(lengths_of(trace[0]), ElementsAre(300));
  EXPECT_THAT(lengths_of(trace[1]), ElementsAre(512, 88)) << "in the order of time";
  EXPECT_EQ(trace[1].at, 1);
  EXPECT_EQ(trace[2].parent, 1u);
  EXPECT_EQ(trace[2].think, 0.5);
  EXPECT_DOUBLE_EQ(trace[2].at, 1 + token_s + 0.5);
  EXPECT_THAT(lengths_of(trace[2]), ElementsAre(700)) << "its length is the whole prompt's";
  EXPECT_EQ(trace[3].parent, 0u);
  EXPECT_EQ(trace[3].think, 2);
  EXPECT_DOUBLE_EQ(trace[3].at, 40 * token_s + 2);
  EXPECT_THAT(lengths_of(trace[3]), ElementsAre(300, 40, 150));
  EXPECT_EQ(trace[3].prompt_tokens, 490u);
  EXPECT_EQ(trace[4].parent, 3u);
  EXPECT_DOUBLE_EQ(trace[4].think, 8 - (40 * token_s + 2) - 20 * token_s);
  EXPECT_THAT(lengths_of(trace[4]), ElementsAre(300, 40, 150, 20, 7));
  EXPECT_EQ(sent(trace, 4).size(), 5u) << "user and assistant in turn";
  EXPECT_EQ(sent(trace, 4)[0], sent(trace, 0)[0]);
  EXPECT_EQ(sent(trace, 4)[1], sent(trace, 3)[1]);
  EXPECT_EQ(sent(trace, 1).size(), 1u);
}

TEST(AiperfTrace, NeedsNoTimesAndTakesTextsByTheirLength) {
  const Entries trace = entries_of(
      "{\"text_input\": \"Hello world\", \"output_length\": 4}\n{\"input_length\": 10, \"output_length\": 3}\n"
      "{\"text_input\": \"Hello world\", \"output_length\": 4}\n",
      3);
  ASSERT_EQ(trace.size(), 3u);
  EXPECT_EQ(trace[0].prompt_tokens, engine::count_tokens("Hello world"));
  EXPECT_EQ(sent(trace, 0), sent(trace, 2)) << "the same text";
  EXPECT_EQ(trace[2].at, 0);
  EXPECT_FALSE(trace[2].parent);
  const std::string good = R"({"session_id":"a","timestamp":5,"input_length":1,"output_length":1})";
  for (const char* bad :
       {R"({"session_id":"a","delay":-1,"input_length":1,"output_length":1})", R"({"session_id":"a","input_length":1})",
        R"({"messages":[{"role":"user"}],"output_length":1})"})
    EXPECT_THAT(error_of(good + "\n" + bad + "\n"), HasSubstr("line 2: expected {\"timestamp\"")) << bad;
  EXPECT_THAT(error_of(good + R"(
{"session_id":"a","timestamp":4,"input_length":1,"output_length":1})"),
              HasSubstr("line 2: its time is before that of the turn before"));
  const std::string most = R"({"session_id":"a","input_length":9000000,"output_length":1})";
  EXPECT_THAT(error_of(most + "\n" + most), HasSubstr("line 2: its prompt has 18000001 tokens, more than 10000000"));
  const Entries two = entries_of(R"({"session_id":"a","input_length":9,"output_length":9}
{"session_id":"a","delay":2000,"input_length":9,"output_length":9}
{"session_id":"b","input_length":9,"output_length":9}
)");
  EXPECT_EQ(two[1].at, 0) << "sessions without times begin together";
}

std::string logged(double second, const std::string& more) {
  char time[64];
  std::snprintf(time, sizeof time, "2026-11-22T10:00:%09.6fZ", second);
  return "{\"v\":1,\"time\":\"" + std::string(time) + "\",\"role\":\"primary\",\"api\":\"openai.chat\",\"outcome\":\"ok\"," +
         more + "}\n";
}

TEST(RequestLogTrace, HasArrivalsAndLengthsInTheOrderOfArrivals) {
  const Entries trace = entries_of(logged(3.5, R"("prompt_tokens":300,"output_tokens":30,"turn":1,"group":null)") +
                                   logged(1, R"("prompt_tokens":100,"output_tokens":10,"turn":1,"group":null)"));
  ASSERT_EQ(trace.size(), 2u);
  EXPECT_EQ(trace[0].at, 0);
  EXPECT_EQ(trace[0].prompt_tokens, 100u);
  EXPECT_EQ(trace[0].output_tokens, 10u);
  EXPECT_NEAR(trace[1].at, 2.5, 1e-6);
  EXPECT_EQ(engine::count_tokens(sent(trace, 1).front()), 300u);
}

TEST(RequestLogTrace, LeavesOutShadowsAndWhatTellsNoLengths) {
  std::istringstream in(
      logged(1, R"("prompt_tokens":null,"prompt_tokens_estimate":90,"output_tokens":null,"max_tokens":20)") +
      logged(2, R"("prompt_tokens":null,"prompt_tokens_estimate":90,"output_tokens":null,"max_tokens":null)") +
      logged(2, R"("prompt_tokens":1e300,"output_tokens":5)") + logged(2, R"("prompt_tokens":20000000,"max_tokens":5)") +
      logged(3, R"("role":"shadow","prompt_tokens":5,"output_tokens":5)") + "{\"time\":\"2026-11-2");
  LogFacts facts;
  const auto read = read_trace(in, 0, &facts);
  ASSERT_TRUE(std::holds_alternative<Entries>(read)) << std::get<std::string>(read);
  ASSERT_EQ(std::get<Entries>(read).size(), 1u);
  EXPECT_EQ(std::get<Entries>(read)[0].prompt_tokens, 90u);
  EXPECT_EQ(std::get<Entries>(read)[0].output_tokens, 20u);
  EXPECT_EQ(facts.without_lengths, 3u);
  EXPECT_THAT(error_of(logged(2, R"("prompt_tokens":null)")), HasSubstr("none of its lines tells the lengths"));
  EXPECT_THAT(error_of(logged(1, R"("a":1)") + "nonsense\n" + logged(2, R"("a":1)")),
              HasSubstr("none of its lines tells the lengths"));
}

TEST(RequestLogTrace, LeavesOutWhatWasRefusedAndSaysSo) {
  const std::string lengths = R"("prompt_tokens":null,"prompt_tokens_estimate":90,"max_tokens":20,)";
  std::string text = logged(1, lengths + R"("status":200,"attempt":1)");
  for (const char* const refused : {R"("status":400,"attempt":1)", R"("status":499,"attempt":2)", R"("status":503,"attempt":0)",
                                    R"("status":null,"attempt":0)"})
    text += logged(2, lengths + refused);
  for (const char* const sent : {R"("status":503,"attempt":1)", R"("status":null,"attempt":1)", R"("status":200)"})
    text += logged(3, lengths + sent);
  std::istringstream in(text + logged(4, R"("attempt":1)"));
  LogFacts facts;
  EXPECT_EQ(std::get<Entries>(read_trace(in, 0, &facts)).size(), 4u);
  EXPECT_EQ(facts.left_out(),
            "left out 4 requests that got a status of 4xx or that no replica was asked for and 1 line without the lengths of "
            "a request");
  EXPECT_EQ((LogFacts{0, 1}.left_out()), "left out 1 request that got a status of 4xx or that no replica was asked for");
  EXPECT_EQ((LogFacts{2, 0}.left_out()), "left out 2 lines without the lengths of a request");
  EXPECT_EQ(LogFacts{}.left_out(), "");
  EXPECT_EQ(error_of(logged(1, lengths + R"("attempt":0)")), "all its requests were refused");
}

TEST(RequestLogTrace, HasWhatPromptsShareByTheKeysOfItsLines) {
  const auto keyed = [](const std::string& prefixes) {
    return logged(1, R"("prompt_tokens":100,"output_tokens":30,"group":null,"prefixes":)" + prefixes);
  };
  const Entries trace = entries_of(keyed("[[200,7],[400,8]]") + keyed("[[200,7],[400,9]]") + keyed("[[200,8],[400,8]]") +
                                   keyed("[[200,7],[300]]") + keyed("[[200,7],[200,8]]") + keyed("null"));
  EXPECT_THAT(lengths_of(trace[0]), ElementsAre(100));
  EXPECT_THAT(lengths_of(trace[1]), ElementsAre(50, 50));
  EXPECT_EQ(trace[1].parts[0].text, trace[0].parts[0].text);
  EXPECT_EQ(trace[2].parts, trace[0].parts) << "its last key is that of the first";
  for (std::size_t i = 3; i < 6; ++i) EXPECT_THAT(lengths_of(trace[i]), ElementsAre(100)) << "no keys, or wrong ones";
}

TEST(RequestLogTrace, WarnsWherePromptsShareMoreThanTheLogTells) {
  const auto facts_of = [](const std::string& first, const std::string& second) {
    std::istringstream in(logged(1, R"("prompt_tokens":1000,"output_tokens":30,)" + first) +
                          logged(2, R"("prompt_tokens":1000,"output_tokens":30,"cached_tokens":500,)" + second));
    LogFacts facts;
    read_trace(in, 0, &facts);
    return facts;
  };
  const std::string keys = R"("prefixes":[[2000,1],[4000,2]])", shared = R"("prefixes":[[2000,1],[4000,3]])";
  const LogFacts told = facts_of(keys, shared), groups = facts_of(R"("group":"a")", R"("group":"b")");
  EXPECT_EQ(told.warning(), "");
  EXPECT_EQ(told.keyed, 2u);
  EXPECT_NEAR(groups.unexplained(), 468.0 / 500, 1e-9) << "up to two blocks need no explanation";
  EXPECT_THAT(groups.warning(), testing::AllOf(HasSubstr("94 % of the prompt tokens"), HasSubstr("[log] prefixes = true")));
  EXPECT_THAT(facts_of(keys, R"("prefixes":[[2000,9],[4000,3]])").warning(), HasSubstr("the log's keys do not tell"));
  EXPECT_EQ(facts_of(R"("group":"a")", R"("group":"b","cached_tokens":32)").warning(), "");
}

TEST(RequestLogTrace, HasTurnsThatFollowEachOther) {
  const Entries trace = entries_of(logged(1, R"("prompt_tokens":100,"output_tokens":30,"turn":1,"group":"aa","e2e_s":2)") +
                                   logged(5, R"("prompt_tokens":180,"output_tokens":40,"turn":2,"group":"aa","e2e_s":null)") +
                                   logged(9, R"("prompt_tokens":250,"output_tokens":5,"turn":3,"group":"aa","e2e_s":1)"));
  EXPECT_EQ(trace[1].parent, 0);
  EXPECT_NEAR(trace[1].think, 2, 1e-6);
  EXPECT_EQ(trace[2].parent, std::nullopt) << "nobody knows when the turn before it ended";
}

TEST(RequestLogTrace, ATurnSaysAgainWhatTheTurnsBeforeItSaid) {
  const Entries trace =
      entries_of(logged(1, R"("prompt_tokens":100,"output_tokens":30,"turn":1,"group":"00000000000000aa")") +
                 logged(2, R"("prompt_tokens":100,"output_tokens":9,"turn":1,"group":"00000000000000bb")") +
                 logged(3, R"("prompt_tokens":180,"output_tokens":40,"turn":2,"group":"00000000000000aa")") +
                 logged(4, R"("prompt_tokens":250,"output_tokens":5,"turn":3,"group":"00000000000000aa")"));
  EXPECT_THAT(lengths_of(trace[0]), ElementsAre(100));
  EXPECT_THAT(lengths_of(trace[2]), ElementsAre(100, 30, 50));
  EXPECT_THAT(lengths_of(trace[3]), ElementsAre(100, 30, 50, 40, 30));
  const auto first = sent(trace, 0), other = sent(trace, 1), second = sent(trace, 2), third = sent(trace, 3);
  EXPECT_EQ(second[0], first[0]);
  EXPECT_NE(other[0], first[0]);
  EXPECT_EQ(std::vector<std::string>(third.begin(), third.begin() + 3), second);
  EXPECT_EQ(engine::count_tokens(third[4]), 30u);
}

TEST(RequestLogTrace, SkipsCountsAndTellsDamagedLines) {
  const std::string fine = R"("prompt_tokens":5,"output_tokens":5)";
  const std::string first = logged(1, fine), last = logged(3, fine);
  std::string all = first;
  std::uint64_t damaged = 0;
  for (const std::string& bad :
       {logged(std::nan(""), fine), logged(99, fine), logged(-5, fine), std::string("nonsense\n"), std::string("[]\n"),
        first.substr(0, first.size() / 2) + "\n", std::string("\0\0\n", 3)}) {
    std::istringstream in(first + bad + last);
    LogFacts facts;
    EXPECT_EQ(std::get<Entries>(read_trace(in, 0, &facts)).size(), 2u) << bad;
    EXPECT_EQ(facts.left_out(), "left out 1 line that cannot be read as a line of a request log") << bad;
    all += bad;
    ++damaged;
  }
  std::istringstream in(all + last.substr(0, last.size() / 2));
  LogFacts facts;
  EXPECT_EQ(std::get<Entries>(read_trace(in, 0, &facts)).size(), 1u);
  EXPECT_EQ(facts.damaged, damaged) << "the last line has no end: it is being written";
}

TEST(RequestLogTrace, ATurnThatCannotBeIsOneMessage) {
  for (const char* const turn : {"1e12", "1e300", "9223372036854775809", "0.5", "-3"}) {
    const Entries trace =
        entries_of(logged(1, R"("prompt_tokens":40,"output_tokens":5,"group":null,"turn":)" + std::string(turn)));
    ASSERT_EQ(trace.size(), 1u);
    EXPECT_THAT(lengths_of(trace[0]), ElementsAre(40)) << turn;
  }
}

TEST(RequestLogTrace, ATurnWithoutItsPastIsDividedEvenly) {
  const Entries trace =
      entries_of(logged(1, R"("prompt_tokens":101,"output_tokens":30,"turn":2,"group":"00000000000000aa")") +
                 logged(2, R"("prompt_tokens":90,"output_tokens":30,"turn":3,"group":"00000000000000aa")") +
                 logged(3, R"("prompt_tokens":2,"output_tokens":1,"turn":9,"group":null)") +
                 logged(4, R"("prompt_tokens":500,"output_tokens":1,"turn":5,"group":"00000000000000aa")"));
  EXPECT_THAT(lengths_of(trace[0]), ElementsAre(33, 33, 35));
  EXPECT_THAT(lengths_of(trace[1]), ElementsAre(18, 18, 18, 18, 18)) << "it has less than was said before";
  EXPECT_THAT(lengths_of(trace[2]), ElementsAre(2)) << "there are fewer tokens than messages";
  EXPECT_THAT(lengths_of(trace[3]), ElementsAre(55, 55, 55, 55, 55, 55, 55, 55, 60)) << "turn 4 is not in the log";
}

}  // namespace
}  // namespace weir::lab::load
