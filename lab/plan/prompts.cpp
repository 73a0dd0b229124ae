#include "lab/plan/prompts.hpp"

#include <memory>

#include "lab/engine/prompt_blocks.hpp"
#include "lab/engine/words.hpp"
#include "metrics/wire/json/writer.hpp"
#include "metrics/wire/request/inspector.hpp"

namespace weir::lab::plan {
namespace {

const metrics::UniversalKey prefix_key{{1, 2}};

using engine::PromptBlocks;

constexpr std::uint64_t begin_tokens = 3, header_tokens = 3;
constexpr std::uint64_t begin_of_text = 1, message_begins = 2, line_break = 3, message_ends = 4;

void add_text(PromptBlocks& blocks, std::uint64_t text, std::uint64_t tokens) {
  for (std::uint64_t i = 0; i < tokens; ++i) blocks.add(text << 32 | i);
}

void begin_message(PromptBlocks& blocks, Role role) {
  for (const std::uint64_t token : {message_begins, 5 + static_cast<std::uint64_t>(role), line_break})
    blocks.add(token);
}

std::vector<std::uint64_t> blocks_of(const Maker::Turn& turn, std::span<const Message> messages, const Message& answer,
                                     std::string_view salt) {
  PromptBlocks blocks(salt);
  for (std::uint64_t i = 0; i < begin_tokens; ++i) blocks.add(begin_of_text);
  for (const Message& one : messages) {
    begin_message(blocks, one.role);
    add_text(blocks, one.text, one.tokens);
    blocks.add(message_ends);
  }
  begin_message(blocks, Role::assistant);
  add_text(blocks, ~answer.text, turn.thoughts);
  add_text(blocks, answer.text, answer.tokens);
  blocks.add(message_ends);
  return blocks.take();
}

}  // namespace

std::size_t Maker::add(double at, const Turn& turn, std::span<const Message> messages, const Message& answer) {
  TracedRequest& request = requests.emplace_back();
  request.at = at;
  request.parent = turn.parent;
  request.think = turn.think;
  request.session = turn.session;
  request.prompt_tokens = begin_tokens + header_tokens;
  for (const Message& one : messages) request.prompt_tokens += header_tokens + one.tokens + 1;
  request.output_tokens = turn.thoughts + answer.tokens + 1;
  request.blocks = blocks_of(turn, messages, answer, turn.salt);
  if (!turn.salt.empty()) request.unsalted = blocks_of(turn, messages, answer, {});
  const std::string body = body_of(messages, turn.salt);
  metrics::wire::RequestInspector inspector(metrics::Api::openai_chat, "POST", "/v1/chat/completions", nullptr,
                                            &prefix_key);
  inspector.feed(body);
  request.facts = std::make_shared<const metrics::wire::RequestFacts>(inspector.finish());
  request.prefix = inspector.take_prefix();
  return requests.size() - 1;
}

const std::string& Maker::words_of(const Message& message) {
  std::string& text = words_[message.text];
  if (!text.empty()) return text;
  Random random_of_text(seed_ * 0x9e3779b97f4a7c15u + message.text);
  const double written =
      static_cast<double>(message.tokens) / 1.5 * std::exp(usual_text_spread * random_of_text.normal());
  const auto tokens = std::max<std::uint64_t>(1, static_cast<std::uint64_t>(std::llround(written)));
  return text = engine::prompt_text(tokens, random_of_text);
}

std::string Maker::body_of(std::span<const Message> messages, const std::string& salt) {
  static constexpr std::string_view roles[]{"system", "user", "assistant"};
  metrics::wire::JsonWriter body;
  body.open('{').key("model").text("sim-7b").key("messages").open('[');
  for (const Message& one : messages) {
    body.open('{').key("role").text(roles[static_cast<std::size_t>(one.role)]);
    body.key("content").text(words_of(one)).close('}');
  }
  body.close(']').key("max_tokens").count(max_tokens).key("stream").boolean(true);
  if (!salt.empty()) body.key("cache_salt").text(salt);
  body.key("stream_options").open('{').key("include_usage").boolean(true).close('}');
  return body.close('}').written();
}

std::uint64_t about(Random& random, double median, double sigma, double least, double most) {
  return static_cast<std::uint64_t>(std::clamp(median * std::exp(sigma * random.normal()), least, most));
}

}  // namespace weir::lab::plan
