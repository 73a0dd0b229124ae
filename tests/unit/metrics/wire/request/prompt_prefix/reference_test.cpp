// The inspector beside the reference, with random bodies in random pieces.
#include <gtest/gtest.h>

#include <array>
#include <string>

#include "tests/unit/metrics/wire/request/prompt_prefix/random_bodies.hpp"

namespace weir::metrics::wire::prompt_prefix {
namespace {

TEST(PromptPrefix, IsTheReferences) {
  Random random(1);
  for (int i = 0; i < 800; ++i) {
    const Api api = std::array{chat, anthropic, responses}[below(random, 3)];
    const json::object members = random_body(random, api);
    const std::string body = with_void_members(random, members, written(random, members));
    const std::uint64_t seed = below(random, 3);
    const Anchors wanted = reference(api, body, seed);
    ASSERT_EQ(anchors(api, body, seed), wanted) << name_of(api) << body;
    ASSERT_EQ(anchors_of(prefix_of(api, cut(random, body), seed)), wanted) << name_of(api) << body;
  }
}

TEST(PromptPrefix, LeavesTheFactsAsTheyAre) {
  Random random(2);
  for (int i = 0; i < 300; ++i) {
    const Api api = std::array{chat, anthropic, responses}[below(random, 3)];
    const std::string body = written(random, random_body(random, api));
    RequestInspector hashing(api, "POST", path_of(api), &conversation_key, &prefix_key);
    hashing.feed(body);
    const RequestFacts with = hashing.finish(), without = facts_of(api, body);
    ASSERT_EQ(with.images, without.images) << body;
    ASSERT_EQ(with.text.code_points, without.text.code_points) << body;
    ASSERT_EQ(with.text.messages, without.text.messages) << body;
    ASSERT_EQ(with.text.tool_bytes, without.text.tool_bytes) << body;
    ASSERT_EQ(with.conversation, without.conversation) << body;
    ASSERT_EQ(with.user_messages, without.user_messages) << body;
    ASSERT_EQ(with.tools, without.tools) << body;
  }
}

}  // namespace
}  // namespace weir::metrics::wire::prompt_prefix
