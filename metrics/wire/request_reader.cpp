#include "metrics/wire/request_reader.hpp"

#include <algorithm>
#include <limits>

namespace weir::metrics::wire {

namespace {

constexpr std::size_t longest_model = 128;

constexpr unsigned chat = 1U << static_cast<unsigned>(Api::openai_chat);
constexpr unsigned completions = 1U << static_cast<unsigned>(Api::openai_completions);
constexpr unsigned tgi = 1U << static_cast<unsigned>(Api::tgi_generate);
constexpr unsigned every = ~0U;

/// Without a code point that the limit has cut.
std::string whole_code_points(std::string text) {
  std::size_t lead = text.size();
  while (lead > 0 && (static_cast<unsigned char>(text[lead - 1]) & 0xC0) == 0x80) --lead;
  if (lead == 0) return text;
  const auto first = static_cast<unsigned char>(text[lead - 1]);
  const std::size_t wanted = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : first >= 0xC0 ? 2 : 1;
  if (text.size() - (lead - 1) < wanted) text.resize(lead - 1);
  return text;
}

}  // namespace

struct RequestReader::Member {
  Place in;
  std::string_view key;
  Place place;
  unsigned apis;
};

constexpr RequestReader::Member RequestReader::members[] = {
    {Place::root, "model", Place::model, every},
    {Place::root, "stream", Place::stream, every & ~tgi},
    {Place::root, "stream_options", Place::stream_options, chat | completions},
    {Place::root, "max_tokens", Place::max_tokens, chat | completions},
    {Place::root, "max_completion_tokens", Place::max_completion_tokens, chat},
    {Place::root, "n", Place::n, chat | completions},
    {Place::root, "temperature", Place::temperature, chat | completions},
    {Place::root, "messages", Place::messages, chat},
    {Place::root, "tools", Place::tools, chat},
    {Place::root, "functions", Place::tools, chat},
    {Place::root, "system", Place::system, chat},
    {Place::root, "prompt", Place::prompt, completions},
    {Place::root, "inputs", Place::inputs, tgi},
    {Place::root, "parameters", Place::parameters, tgi},
    {Place::root, "text", Place::sglang_input, tgi},
    {Place::root, "input_ids", Place::sglang_input, tgi},
    {Place::stream_options, "include_usage", Place::include_usage, every},
    {Place::parameters, "max_new_tokens", Place::max_tokens, every},
    {Place::parameters, "do_sample", Place::do_sample, every},
    {Place::parameters, "temperature", Place::temperature, every},
    {Place::parameters, "best_of", Place::n, every},
    {Place::message, "content", Place::content, every},
    {Place::message, "reasoning_content", Place::text, every},
    {Place::message, "tool_calls", Place::text_tree, every},
    {Place::part, "text", Place::text, every},
    {Place::part, "refusal", Place::text, every},
    {Place::part, "thinking", Place::text, every},
};

/// The place of the value that comes now: a member's by its key, an element's by its array.
RequestReader::Place RequestReader::value_place() const {
  if (open_.empty()) return Place::root;
  if (!open_.back().array) return member_;
  switch (open_.back().place) {
    case Place::messages:
      return Place::message;
    case Place::content:
      return Place::part;
    case Place::prompt:
      return Place::prompt_of_list;
    case Place::prompt_of_list:
      return Place::token_of_list;
    case Place::text_tree:
    case Place::tool_tree:
      return open_.back().place;
    default:
      return Place::ignored;
  }
}

/// A key of the outermost object has come, maybe once more: what its value said before is void.
void RequestReader::begin_member(Place place) {
  switch (place) {
    case Place::messages:
      messages_ = 0;
      from_ = From::messages;
      break;
    case Place::prompt:
    case Place::inputs:
      prompts_ = prompt_token_ids_ = 0;
      from_ = From::prompt;
      break;
    case Place::tools:
      tools_ = false;
      tool_bytes_ = 0;
      from_ = From::tools;
      break;
    case Place::system:
      from_ = From::system;
      break;
    case Place::parameters:
      max_tokens_.reset();
      n_.reset();
      temperature_.reset();
      do_sample_ = false;
      return;
    case Place::stream_options:
      usage_requested_ = false;
      return;
    default:
      return;
  }
  source() = {};
}

void RequestReader::key_text(std::string_view piece) {
  const Place in = open_.back().place;
  if (in == Place::tool_tree) tool_bytes_ += piece.size();
  if (in == Place::tool_tree || in == Place::text_tree) source().scripts.add(piece);
}

void RequestReader::key(std::string_view name) {
  const Place in = open_.back().place;
  if (in == Place::tool_tree || in == Place::text_tree) {
    if (in == Place::tool_tree) tool_bytes_ += 3;  // Two quotes and a colon.
    member_ = in;
    return;
  }
  member_ = Place::ignored;
  if (in == Place::ignored) return;
  const unsigned api = 1U << static_cast<unsigned>(api_);
  for (const Member& member : members) {
    if (member.in == in && member.key == name && (member.apis & api) != 0) member_ = member.place;
  }
  if (in == Place::root) begin_member(member_);
  if (member_ == Place::stream_options) stream_options_ = true;
  if (member_ == Place::inputs) inputs_ = true;
  if (member_ == Place::sglang_input) sglang_input_ = true;
  if (member_ == Place::system) member_ = Place::content;
  forget(member_);
}

/// Whatever a value will turn out to be: it is not what an earlier one of that name was.
void RequestReader::forget(Place place) {
  switch (place) {
    case Place::model:
      return model_.clear();
    case Place::stream:
      stream_ = false;
      return;
    case Place::include_usage:
      usage_requested_ = false;
      return;
    case Place::do_sample:
      do_sample_ = false;
      return;
    case Place::max_tokens:
      return max_tokens_.reset();
    case Place::max_completion_tokens:
      return max_completion_tokens_.reset();
    case Place::n:
      return n_.reset();
    case Place::temperature:
      return temperature_.reset();
    default:
      return;
  }
}

void RequestReader::object_begin() {
  Place place = value_place();
  switch (place) {
    case Place::message:
      ++messages_;
      break;
    case Place::part:
      part_has_text_ = false;
      break;
    case Place::tool_tree:
    case Place::text_tree:
    case Place::stream_options:
    case Place::parameters:
    case Place::root:
      break;
    default:
      place = Place::ignored;
  }
  open_.push_back({place, false});
}

void RequestReader::object_end(std::size_t n) {
  const Place place = open_.back().place;
  open_.pop_back();
  if (place == Place::tool_tree) tool_bytes_ += 2 + (n > 0 ? n - 1 : 0);
  if (place == Place::part && !part_has_text_) ++source().images;
  if (open_.empty()) empty_ = n == 0;
}

void RequestReader::array_begin() {
  Place place = value_place();
  switch (place) {
    case Place::tools:
      place = Place::tool_tree;
      break;
    case Place::prompt_of_list:
      ++prompts_;
      break;
    case Place::messages:
    case Place::content:
    case Place::prompt:
    case Place::tool_tree:
    case Place::text_tree:
      break;
    default:
      place = Place::ignored;
  }
  open_.push_back({place, true});
}

void RequestReader::array_end(std::size_t n) {
  const Place place = open_.back().place;
  open_.pop_back();
  if (place != Place::tool_tree) return;
  tool_bytes_ += 2 + (n > 0 ? n - 1 : 0);
  tools_ |= open_.size() == 1 && n > 0;
}

void RequestReader::string(std::string_view piece, bool last) {
  const Place place = value_place();
  switch (place) {
    case Place::model:
      model_.append(piece.substr(0, longest_model - model_.size()));
      break;
    case Place::text:
      part_has_text_ = true;
      source().scripts.add(piece);
      break;
    case Place::prompt_of_list:
      if (last) ++prompts_;
      [[fallthrough]];
    case Place::content:
    case Place::part:
    case Place::prompt:
    case Place::inputs:
    case Place::text_tree:
      source().scripts.add(piece);
      break;
    case Place::tool_tree:
      tool_bytes_ += piece.size() + (last ? 2 : 0);
      source().scripts.add(piece);
      break;
    default:
      break;
  }
}

void RequestReader::number(double value, std::size_t bytes) {
  switch (value_place()) {
    case Place::max_tokens:
      max_tokens_ = as_count(value);
      break;
    case Place::max_completion_tokens:
      max_completion_tokens_ = as_count(value);
      break;
    case Place::n:
      n_ = as_count(value);
      break;
    case Place::temperature:
      temperature_ = value;
      break;
    case Place::prompt_of_list:
    case Place::token_of_list:
      ++prompt_token_ids_;
      break;
    case Place::tool_tree:
      tool_bytes_ += bytes;
      break;
    default:
      break;
  }
}

void RequestReader::boolean(bool value) {
  switch (value_place()) {
    case Place::stream:
      stream_ = value;
      break;
    case Place::include_usage:
      usage_requested_ = value;
      break;
    case Place::do_sample:
      do_sample_ = value;
      break;
    case Place::tool_tree:
      tool_bytes_ += value ? 4 : 5;
      break;
    default:
      break;
  }
}

void RequestReader::fill(RequestFacts& facts) const {
  facts.model = whole_code_points(model_);
  facts.stream |= stream_;
  facts.max_tokens = max_completion_tokens_ ? max_completion_tokens_ : max_tokens_;
  constexpr std::uint64_t most = std::numeric_limits<std::uint32_t>::max();
  const std::uint64_t n = std::clamp<std::uint64_t>(n_.value_or(1), 1, most);
  facts.n = static_cast<std::uint32_t>(std::min(n * std::clamp<std::uint64_t>(prompts_, 1, most), most));
  if (api_ == Api::tgi_generate) {
    facts.greedy = !do_sample_;
    if (sglang_input_ && !inputs_) facts.api = Api::other;
  } else {
    facts.greedy = temperature_ == 0.0;
  }
  facts.tools = tools_;
  if (prompt_token_ids_ > 0) facts.prompt_token_ids = prompt_token_ids_;
  facts.usage_requested = usage_requested_;
  facts.stream_options = stream_options_;
  facts.empty_object = empty_;
  facts.text.messages = messages_;
  facts.text.tool_bytes = tool_bytes_;
  for (const Source& one : sources_) {
    facts.images += one.images;
    for (std::size_t i = 0; i < script_count; ++i) facts.text.code_points[i] += one.scripts.counts()[i];
  }
}

}  // namespace weir::metrics::wire
