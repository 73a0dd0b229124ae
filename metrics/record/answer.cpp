#include "metrics/record/answer.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <utility>

#include "metrics/wire/json/writer.hpp"

namespace weir::metrics::record {

namespace {

constexpr std::uint64_t unit = 1000;  // The lower edge of bin 1 is so many nanoseconds.
constexpr std::uint64_t per_octave = 64;
constexpr std::uint64_t longest = std::uint64_t{1} << 56;  // Two years are the longest gap; this keeps the arithmetic
                                                           // below in 64 bits.

double lower_edge(std::uint16_t bin) {
  const auto above = static_cast<unsigned>(bin - 1);
  return std::ldexp(static_cast<double>(unit), static_cast<int>(above / per_octave)) *
         (1.0 + static_cast<double>(above % per_octave) / static_cast<double>(per_octave));
}

}  // namespace

std::uint16_t GapSketch::bin_of(Nanoseconds gap) {
  if (gap.count() < static_cast<std::int64_t>(unit)) return 0;
  const auto ns = std::min(static_cast<std::uint64_t>(gap.count()), longest);
  const auto octave = static_cast<unsigned>(std::bit_width(ns / unit)) - 1;
  const std::uint64_t base = unit << octave;
  return static_cast<std::uint16_t>(1 + octave * per_octave + (ns - base) * per_octave / base);
}

Nanoseconds GapSketch::middle_of(std::uint16_t bin) {
  if (bin == 0) return Nanoseconds{0};                // Bin 0 holds events of one read, whose gap is zero.
  bin = std::min(bin, bin_of(Nanoseconds{longest}));  // A log may name any bin.
  const double low = lower_edge(bin);
  const double high = lower_edge(static_cast<std::uint16_t>(bin + 1));
  return Nanoseconds{std::llround(std::sqrt(low * high))};
}

void GapSketch::add(Nanoseconds gap, std::uint32_t count) {
  const std::uint16_t index = bin_of(gap);
  const auto at = std::lower_bound(bins_.begin(), bins_.end(), index,
                                   [](const Bin& bin, std::uint16_t wanted) { return bin.index < wanted; });
  nanoseconds_ += static_cast<std::uint64_t>(std::max(gap.count(), Nanoseconds::rep{0})) * count;
  if (at != bins_.end() && at->index == index) {
    at->count += count;
  } else {
    bins_.insert(at, Bin{index, count});
  }
}

std::uint64_t GapSketch::count() const {
  std::uint64_t sum = 0;
  for (const Bin& bin : bins_) sum += bin.count;
  return sum;
}

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
