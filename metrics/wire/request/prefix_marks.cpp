#include "metrics/wire/request/prefix_marks.hpp"

#include <algorithm>

namespace weir::metrics::wire {

std::vector<PrefixMark> marks_of(const PromptPrefix& prefix, const SipKey& secret) {
  std::vector<PrefixMark> marks;
  marks.reserve(prefix.anchors.size());
  for (const auto& anchor : prefix.anchors) {
    SipHash hash(secret);
    hash.add(anchor.key);
    marks.push_back({anchor.position, static_cast<std::uint32_t>(hash.value() >> 32)});
  }
  if (marks.size() <= most_marks) return marks;
  const auto last = marks.end() - last_marks;
  const auto chosen = marks.begin() + (most_marks - last_marks);
  std::nth_element(marks.begin(), chosen, last,
                   [](const PrefixMark& a, const PrefixMark& b) { return a.key < b.key; });
  marks.erase(chosen, last);
  std::ranges::sort(marks);
  return marks;
}

}  // namespace weir::metrics::wire
