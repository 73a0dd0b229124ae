#include "metrics/wire/request/inspector.hpp"

#include <algorithm>
#include <limits>
#include <numeric>

#include "metrics/memory.hpp"
#include "metrics/utf8.hpp"
#include "metrics/wire/json/parser.hpp"
#include "metrics/wire/request/facts.hpp"
#include "metrics/wire/request/reader.hpp"

namespace weir::metrics::wire {

std::uint64_t TextFeatures::chars() const {
  return std::accumulate(code_points.begin(), code_points.end(), std::uint64_t{0});
}

struct RequestInspector::State : Recycled<State> {
  Api api = Api::other;
  bool gives_work = true;
  JsonParser<RequestReader> json;
  std::uint64_t blanks = 0;  // Counts the blanks before the document.
  enum class Begin : std::uint8_t { awaited, object, other } begin = Begin::awaited;
};

RequestInspector::RequestInspector(Api api, std::string_view method, std::string_view path,
                                   const ConversationKey* conversation_key, const UniversalKey* prefix_key)
    : state_(std::make_unique_for_overwrite<State>()) {
  state_->api = api;
  state_->gives_work = method == "POST";
  state_->json.reader().begin(api, path, conversation_key, prefix_key);
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
  RequestFacts facts;
  facts.api = state_->api;
  facts.gives_work = state_->gives_work;
  facts.stream = state_->json.reader().always_streams();
  // A broken document gives no facts: how far it was read would depend on where it was cut.
  facts.whole_json = state_->begin == State::Begin::object && state_->json.whole();
  if (!facts.whole_json) return facts;
  facts.first_member_at = state_->blanks + 1;
  state_->json.reader().fill(facts);
  return facts;
}

std::shared_ptr<const PromptPrefix> RequestInspector::take_prefix(std::uint64_t seed) {
  const bool whole = state_->begin == State::Begin::object && state_->json.whole();
  return whole ? state_->json.reader().take_prefix(seed) : nullptr;
}

namespace {

class ModelSax : public Sax {
 public:
  void object_begin() {
    if (depth_++ == 0) is_object_ = true;
  }
  void object_end(std::size_t) { --depth_; }
  void array_begin() { ++depth_; }
  void array_end(std::size_t) { --depth_; }
  void key(std::string_view name) {
    if (depth_ != 1) return;
    named_ += is_model(name) ? 1 : 0;
    in_model_ = name == "model";
    if (!in_model_) return;
    model_.clear();
    is_model_whole_ = false;
  }
  void string(std::string_view piece, bool last) {
    if (!in_model_ || depth_ != 1) return;
    model_.append(piece.substr(0, longest_model - model_.size()));
    is_model_whole_ = last;
  }

  const std::string& model() const { return model_; }
  bool is_model_whole() const { return is_model_whole_; }
  bool is_object() const { return is_object_; }
  bool is_twice() const { return named_ > 1; }

 private:
  std::size_t depth_ = 0;
  bool is_object_ = false;  ///< The outermost value is one.
  std::size_t named_ = 0;   ///< Counts the members that some reader could take for it.
  bool in_model_ = false;   ///< The value of the outermost object's `model` comes.
  bool is_model_whole_ = false;
  std::string model_;
};

}  // namespace

struct ModelReader::State {
  JsonParser<ModelSax> json;
};

ModelReader::ModelReader() = default;
ModelReader::~ModelReader() = default;

void ModelReader::feed(std::span<const char> piece) {
  if (!state_) state_ = std::make_unique<State>();
  state_->json.feed({piece.data(), piece.size()});
}

std::string ModelReader::model() const { return whole() ? state_->json.reader().model() : std::string(); }

std::string ModelReader::model_so_far() const {
  if (!state_ || !state_->json.reader().is_object() || !state_->json.reader().is_model_whole()) return {};
  return state_->json.reader().model();
}

bool ModelReader::is_twice() const { return whole() && state_->json.reader().is_twice(); }

bool ModelReader::whole() const { return state_ && state_->json.whole() && state_->json.reader().is_object(); }

RequestFacts facts_of_unread(std::string_view method, const ModelReader& read) {
  RequestFacts facts;
  facts.gives_work = method == "POST";
  facts.model = read.model();
  facts.model_twice = read.is_twice();
  facts.whole_json = read.whole();
  return facts;
}

// Turns what a request's body has said into facts, once the body is whole.

/// Returns the request's dialect: where several share its route, the members tell.
Api RequestReader::api_by_members() const {
  const auto told = dialect_of(api_).told_by_sources;
  if (told == nullptr) return api_;
  RequestSources there = 0;
  for (std::size_t i = 0; i < sources_.size(); ++i) {
    if (sources_[i].begun) there = static_cast<RequestSources>(there | only(static_cast<From>(i)));
  }
  return told(there);
}

/// Members come in any order, so each is hashed by itself.
void RequestReader::tell_conversation(RequestFacts& facts) const {
  if (opening_.key() == nullptr) return;
  SipHash all(opening_.key()->numbers);
  all.add(facts.model);
  for (const From from : {From::system, From::prompt, From::text}) {
    if (contains(dialect_of(facts.api).foreign_sources, from)) continue;
    const auto value = from == from_ ? opening_.value() : sources_[static_cast<std::size_t>(from)].opening;
    all.add(value.has_value() ? "\xFF" : "\xFE");  // No UTF-8 has these bytes.
    all.add(value.value_or(0));
  }
  facts.conversation = all.value();
}

std::shared_ptr<const PromptPrefix> RequestReader::take_prefix(std::uint64_t seed) {
  if (!prefix_ || prefix_->chain_member() == nullptr) return nullptr;
  if (no_prefix_ || said_.stored_context) return nullptr;
  if (model_.size() == longest_model) return nullptr;  // Other models may begin so, too.
  if (sources_[static_cast<std::size_t>(From::context)].token_ids > 0) return nullptr;
  const Dialect& dialect = dialect_of(api_by_members());
  const auto prompt = static_cast<const RequestMember*>(prefix_->chain_member())->from;
  if (contains(dialect.foreign_sources, prompt)) return nullptr;
  if (sources_[static_cast<std::size_t>(prompt)].prompts() > 1) return nullptr;
  UniversalHash all(prefix_->key());
  all.add(model_);
  all.add(dialect.renders_prompt ? "\xFF" : "\xFE");  // No UTF-8 has these bytes.
  all.add(seed);
  return prefix_->take(all);
}

void RequestReader::fill(RequestFacts& facts) const {
  facts.api = api_by_members();
  const Dialect& dialect = dialect_of(facts.api);
  const Streams streams = dialect.route(route_.path).streams;
  const bool asked = stream_.value_or(streams == Streams::unless_declined);
  facts.stream = streams == Streams::always || (streams != Streams::never && asked);
  facts.model = model_.substr(0, model_.size() - cut_at_end(model_));
  facts.model_twice = models_named_ > 1;
  facts.tools = said_.tools;
  facts.stored_context = said_.stored_context;
  facts.stores = said_.stores;
  if (names_ != Names{}) facts.names = names_;
  facts.usage_requested = said_.usage_requested;
  facts.stream_options = said_.stream_options;
  facts.token_timings = said_.token_timings;
  facts.empty_object = said_.empty;
  facts.text.tool_bytes = said_.tool_bytes;

  std::uint64_t prompts = 0;
  std::uint64_t token_ids = 0;
  for (std::size_t i = 0; i < sources_.size(); ++i) {
    if (contains(dialect.foreign_sources, static_cast<From>(i))) continue;
    const Source& one = sources_[i];
    if (!one.begun) continue;
    prompts += one.prompts();
    token_ids += one.token_ids;
    facts.images += one.images;
    facts.text.messages += one.messages;
    facts.user_messages = std::max(facts.user_messages, one.user_messages);
    for (std::size_t s = 0; s < script_count; ++s) facts.text.code_points[s] += one.scripts.counts()[s];
  }
  if (token_ids > 0) facts.prompt_token_ids = token_ids;
  // Ollama's context has earlier turns, as ids.
  if (said_.stored_context || sources_[static_cast<std::size_t>(From::context)].token_ids > 0) facts.user_messages = 0;
  if (facts.user_messages > 0 && token_ids == 0) tell_conversation(facts);

  const Sampling& sampling = dialect.has_sampling_params ? nested_sampling_ : sampling_;
  facts.max_tokens = sampling.preferred_max_tokens ? sampling.preferred_max_tokens : sampling.max_tokens;
  if (facts.max_tokens > most_tokens) facts.max_tokens.reset();  // Such a number is no limit.
  facts.greedy = dialect.greedy(sampling);
  constexpr std::uint64_t most = std::numeric_limits<std::uint32_t>::max();
  const std::uint64_t n = std::clamp<std::uint64_t>(sampling.n.value_or(1), 1, most);
  facts.prompts = static_cast<std::uint32_t>(std::clamp<std::uint64_t>(prompts, 1, most));
  facts.n = static_cast<std::uint32_t>(std::min(n * facts.prompts, most));
}

}  // namespace weir::metrics::wire
