#include "metrics/wire/request.hpp"

#include <algorithm>
#include <limits>
#include <numeric>
#include <vector>

#include "metrics/wire/json_feed.hpp"
#include "metrics/wire/script.hpp"

namespace weir::metrics::wire {

namespace {

constexpr std::size_t longest_model = 128;

/// What a value means, by the keys that lead to it.
enum class Place : std::uint8_t {
  ignored,
  root,
  model,
  stream,
  stream_options,
  include_usage,
  max_tokens,
  max_completion_tokens,
  n,
  temperature,
  messages,
  message,
  content,  // A string, or parts.
  part,
  text,
  text_tree,  // Every string below counts as text.
  prompt,     // A string, token ids, or a list of either.
  prompt_of_list,
  token_of_list,
  tools,
  tool_tree,
  system,
  inputs,
  parameters,
  do_sample,
  sglang_input,
};

constexpr unsigned chat = 1U << static_cast<unsigned>(Api::openai_chat);
constexpr unsigned completions = 1U << static_cast<unsigned>(Api::openai_completions);
constexpr unsigned tgi = 1U << static_cast<unsigned>(Api::tgi_generate);
constexpr unsigned every = ~0U;

struct Member {
  Place in;
  std::string_view key;
  Place place;
  unsigned apis;
};

constexpr Member members[] = {
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

/// Text of one of the outermost members, so that the last of duplicates is the one that counts.
struct Source {
  ScriptCounter scripts;
  std::uint32_t images = 0;
};
enum class From : std::uint8_t { messages, prompt, tools, system };

class Reader : public Sax<Reader> {
 public:
  void speak(Api api) { api_ = api; }
  void fill(RequestFacts& facts) const;

  void object_begin();
  void object_end(std::size_t n);
  void array_begin();
  void array_end(std::size_t n);
  void key_text(std::string_view piece);
  void key(std::string_view name);
  void string(std::string_view piece, bool last);
  void number(double value, std::size_t bytes);
  void boolean(bool value);
  void null() { scalar(value_place(), 4); }

 private:
  struct Container {
    Place place;
    bool array;
  };

  Place value_place() const;
  void begin_member(Place place);
  void scalar(Place place, std::size_t bytes);
  Source& source() { return sources_[static_cast<std::size_t>(from_)]; }

  Api api_ = Api::other;
  std::vector<Container> open_;
  Place member_ = Place::ignored;  // Of the key read last.
  From from_ = From::messages;     // Where the text that comes now belongs.
  bool part_has_text_ = false;

  std::string model_;
  bool stream_ = false;
  bool stream_options_ = false;
  bool usage_requested_ = false;
  bool tools_ = false;
  bool do_sample_ = false;
  bool inputs_ = false;
  bool sglang_input_ = false;
  bool empty_ = false;
  std::optional<std::uint64_t> max_tokens_, max_completion_tokens_, n_;
  std::optional<double> temperature_;
  std::uint64_t prompts_ = 0;
  std::uint64_t prompt_token_ids_ = 0;
  std::uint32_t messages_ = 0;
  std::uint64_t tool_bytes_ = 0;
  std::array<Source, 4> sources_;
};

/// The place of the value that comes now: a member's by its key, an element's by its array.
Place Reader::value_place() const {
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
void Reader::begin_member(Place place) {
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

void Reader::key_text(std::string_view piece) {
  const Place in = open_.back().place;
  if (in == Place::tool_tree) tool_bytes_ += piece.size();
  if (in == Place::tool_tree || in == Place::text_tree) source().scripts.add(piece);
}

void Reader::key(std::string_view name) {
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
  scalar(member_, 0);
}

/// Whatever a value will turn out to be: it is not what an earlier one of that name was.
void Reader::scalar(Place place, std::size_t bytes) {
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
    case Place::tool_tree:
      tool_bytes_ += bytes;
      return;
    default:
      return;
  }
}

void Reader::object_begin() {
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

void Reader::object_end(std::size_t n) {
  const Place place = open_.back().place;
  open_.pop_back();
  if (place == Place::tool_tree) tool_bytes_ += 2 + (n > 0 ? n - 1 : 0);
  if (place == Place::part && !part_has_text_) ++source().images;
  if (open_.empty()) empty_ = n == 0;
}

void Reader::array_begin() {
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

void Reader::array_end(std::size_t n) {
  const Place place = open_.back().place;
  open_.pop_back();
  if (place != Place::tool_tree) return;
  tool_bytes_ += 2 + (n > 0 ? n - 1 : 0);
  tools_ |= open_.size() == 1 && n > 0;
}

void Reader::string(std::string_view piece, bool last) {
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

void Reader::number(double value, std::size_t bytes) {
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

void Reader::boolean(bool value) {
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

void Reader::fill(RequestFacts& facts) const {
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

}  // namespace

std::uint64_t TextFeatures::chars() const {
  return std::accumulate(code_points.begin(), code_points.end(), std::uint64_t{0});
}

Api api_of(std::string_view method, std::string_view path) {
  if (method != "POST") return Api::other;
  if (path == "/v1/chat/completions") return Api::openai_chat;
  if (path == "/v1/completions") return Api::openai_completions;
  if (path == "/generate" || path == "/generate_stream") return Api::tgi_generate;
  return Api::other;
}

struct RequestInspector::State {
  RequestFacts facts;
  JsonFeed<Reader> json;
  std::uint64_t blanks = 0;  // Before the document.
  enum class Begin : std::uint8_t { awaited, object, other } begin = Begin::awaited;
};

RequestInspector::RequestInspector(Api api, std::string_view path) : state_(std::make_unique<State>()) {
  state_->facts.api = api;
  state_->facts.stream = api == Api::tgi_generate && path.ends_with("/generate_stream");
  state_->json.reader().speak(api);
}
RequestInspector::~RequestInspector() = default;
RequestInspector::RequestInspector(RequestInspector&&) noexcept = default;
RequestInspector& RequestInspector::operator=(RequestInspector&&) noexcept = default;

void RequestInspector::feed(std::span<const char> piece) {
  std::string_view text(piece.data(), piece.size());
  using Begin = State::Begin;
  if (state_->begin == Begin::awaited) {
    const std::size_t blanks = std::min(text.find_first_not_of(" \t\r\n"), text.size());
    state_->blanks += blanks;
    text.remove_prefix(blanks);
    if (text.empty()) return;
    state_->begin = text.front() == '{' ? Begin::object : Begin::other;
  }
  if (state_->begin == Begin::object) state_->json.feed(text);
}

RequestFacts RequestInspector::finish() {
  RequestFacts facts = state_->facts;
  // A broken document says nothing: how far it was read would depend on where it was cut.
  facts.whole_json = state_->begin == State::Begin::object && state_->json.whole();
  if (!facts.whole_json) return facts;
  facts.first_member_at = state_->blanks + 1;
  state_->json.reader().fill(facts);
  return facts;
}

std::string_view usage_member(const RequestFacts& facts) {
  const bool openai = facts.api == Api::openai_chat || facts.api == Api::openai_completions;
  if (!openai || !facts.stream || facts.stream_options || !facts.first_member_at) return {};
  // A request that streams has a member behind this one.
  return R"("stream_options":{"include_usage":true},)";
}

}  // namespace weir::metrics::wire
