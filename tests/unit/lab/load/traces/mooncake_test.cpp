#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>
#include <variant>

#include "lab/engine/words.hpp"
#include "lab/load/traces/mooncake.hpp"

namespace weir::lab::load::traces {
namespace {

std::vector<TraceEntry> written_and_read(const std::vector<TraceEntry>& entries) {
  std::stringstream file;
  write_mooncake(file, entries);
  return std::get<std::vector<TraceEntry>>(read_trace(file, 0));
}

std::size_t common(const std::vector<std::uint64_t>& a, const std::vector<std::uint64_t>& b) {
  return static_cast<std::size_t>(std::ranges::mismatch(a, b).in1 - a.begin());
}

TEST(MooncakeWriter, WritesTheMembersThatMooncakeHas) {
  std::stringstream file;
  write_mooncake(file,
                 std::vector<TraceEntry>{{.at = 0, .prompt_tokens = 600, .output_tokens = 7, .conversation = 0},
                                         {.at = 1.25, .prompt_tokens = 5, .output_tokens = 1, .conversation = 1}});
  EXPECT_EQ(file.str(),
            "{\"timestamp\":0,\"input_length\":600,\"output_length\":7,\"hash_ids\":[0,1]}\n"
            "{\"timestamp\":1250,\"input_length\":5,\"output_length\":1,\"hash_ids\":[2]}\n");
}

/// Turns of random conversations, some of which say again what the one before said.
TEST(MooncakeWriter, PromptsShareAnIdForEach512TokensThatTheyShare) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    engine::Random random(seed);
    std::vector<TraceEntry> entries;
    for (std::uint64_t i = 0; i < 60; ++i) {
      TraceEntry& entry = entries.emplace_back();
      entry.at = static_cast<double>(i);
      entry.conversation = random.below(8);
      const std::uint64_t messages = 1 + random.below(4);
      for (std::uint64_t m = 0; m < messages; ++m) {
        // The same lengths come again and again, and are the same texts.
        entry.parts.push_back({10 * entry.conversation + m, m + 1 < messages ? 700 : 1 + random.below(1500)});
        entry.prompt_tokens += entry.parts.back().tokens;
      }
      entry.output_tokens = 1 + random.below(500);
    }
    const auto read = written_and_read(entries);
    ASSERT_EQ(read.size(), entries.size());
    for (std::size_t i = 0; i < entries.size(); ++i) {
      EXPECT_EQ(read[i].at, entries[i].at);
      EXPECT_EQ(read[i].prompt_tokens, entries[i].prompt_tokens);
      EXPECT_EQ(read[i].output_tokens, entries[i].output_tokens);
      EXPECT_EQ(read[i].blocks.size(), (entries[i].prompt_tokens + 511) / 512);
      for (std::size_t j = 0; j < i; ++j) {
        // Two texts of one part begin alike, and are the same as far as the shorter one goes.
        std::uint64_t shared = 0;
        if (entries[i].conversation == entries[j].conversation) {
          for (std::size_t m = 0; m < std::min(entries[i].parts.size(), entries[j].parts.size()); ++m) {
            shared += std::min(entries[i].parts[m].tokens, entries[j].parts[m].tokens);
            if (entries[i].parts[m] != entries[j].parts[m]) break;
          }
        }
        const bool same = shared == entries[i].prompt_tokens && shared == entries[j].prompt_tokens;
        EXPECT_EQ(common(read[i].blocks, read[j].blocks), same ? read[i].blocks.size() : shared / 512);
      }
    }
  }
}

TEST(MooncakeWriter, IdsOfATraceThatHasThemShareWhatTheyShared) {
  std::vector<TraceEntry> entries(2);
  entries[0] = {.at = 0, .prompt_tokens = 1024, .output_tokens = 1, .blocks = {9, 8}, .conversation = 0};
  entries[1] = {.at = 1, .prompt_tokens = 1500, .output_tokens = 1, .blocks = {9, 7, 8}, .conversation = 1};
  const auto read = written_and_read(entries);
  EXPECT_EQ(read[0].blocks, (std::vector<std::uint64_t>{0, 1}));
  EXPECT_EQ(read[1].blocks, (std::vector<std::uint64_t>{0, 2, 3})) << "the same id behind another one is another text";
}

}  // namespace
}  // namespace weir::lab::load::traces
