#include "metrics/record/fingerprint.hpp"

#include <algorithm>
#include <utility>

#include "metrics/wire/json/canonical.hpp"

namespace weir::metrics::record {

namespace {

bool same(const Fingerprint::Text& a, const Fingerprint::Text& b) { return a.bytes == b.bytes && a.hash == b.hash; }

std::uint64_t common_bytes(const Fingerprint::Text& a, const Fingerprint::Text& b) {
  if (same(a, b)) return a.bytes;
  const auto differ = std::ranges::mismatch(a.checkpoints, b.checkpoints).in1;
  return static_cast<std::uint64_t>(differ - a.checkpoints.begin()) * Fingerprint::checkpoint_every;
}

bool calls_json(const Fingerprint& answer) {
  return !answer.calls.empty() && std::ranges::all_of(answer.calls, &Fingerprint::Call::valid);
}

}  // namespace

Likeness likeness(const Fingerprint& a, const Fingerprint& b) {
  Likeness found;
  if (a.text_known && b.text_known) {
    const bool same_reasoning = same(a.reasoning, b.reasoning);
    found.same_text = same_reasoning && same(a.text, b.text);
    found.common_prefix_bytes = common_bytes(a.reasoning, b.reasoning);
    if (same_reasoning) *found.common_prefix_bytes += common_bytes(a.text, b.text);
  }
  found.calls = a.calls_known && b.calls_known && !(a.calls.empty() && b.calls.empty());
  if (!found.calls) return found;
  found.same_tools = a.calls == b.calls;
  found.a_valid = calls_json(a);
  found.b_valid = calls_json(b);
  return found;
}

void FingerprintMaker::TextHash::add(std::string_view piece) {
  while (!piece.empty()) {
    const std::uint64_t to_next = Fingerprint::checkpoint_every - hash_.bytes() % Fingerprint::checkpoint_every;
    const bool all = hash_.bytes() >= Fingerprint::checkpoints_up_to;
    const std::string_view part = all ? piece : piece.substr(0, to_next);
    hash_.add(part);
    piece.remove_prefix(part.size());
    if (!all && part.size() == to_next) checkpoints_.push_back(hash_.value());
  }
}

Fingerprint::Text FingerprintMaker::TextHash::finish() {
  return {.hash = hash_.value(), .bytes = hash_.bytes(), .checkpoints = std::move(checkpoints_)};
}

void FingerprintMaker::call_arguments(std::string_view piece) {
  if (piece.size() > Fingerprint::longest_arguments - arguments_.size()) return lost_calls();
  if (made_.calls_known) arguments_ += piece;
}

void FingerprintMaker::end_call() {
  const bool named = name_.bytes() > 0;
  if (!named && arguments_.empty()) return;
  // A call without a name does not tell which tool it calls.
  if (!named || made_.calls.size() == Fingerprint::most_calls) lost_calls();
  if (made_.calls_known) {
    const auto json = wire::canonical_json(arguments_.empty() ? "{}" : arguments_);
    made_.calls.push_back({name_.value(), sip_hash(key_, json.value_or(arguments_)), json.has_value()});
  }
  name_ = SipHash(key_);
  arguments_.clear();
}

Fingerprint FingerprintMaker::finish() {
  end_call();
  if (!made_.calls_known) made_.calls.clear();
  made_.reasoning = reasoning_.finish();
  made_.text = text_.finish();
  return std::move(made_);
}

}  // namespace weir::metrics::record
