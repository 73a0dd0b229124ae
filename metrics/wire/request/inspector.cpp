#include "metrics/wire/request/inspector.hpp"

#include <algorithm>
#include <numeric>

#include "metrics/memory.hpp"
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

}  // namespace weir::metrics::wire
