#include "metrics/wire/request/inspector.hpp"

#include <algorithm>
#include <numeric>

#include "metrics/recycled.hpp"
#include "metrics/wire/json/parser.hpp"
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
                                   const ConversationKey* conversation_key,
                                   const UniversalKey* prefix_key)
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

}  // namespace weir::metrics::wire
