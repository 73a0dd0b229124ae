#include "proxy/net/uploads.hpp"

#include <limits>
#include <utility>

namespace weir::proxy::net {

bool Uploads::make_room(Upload* asker, metrics::Moment now, Of of) {
  Upload* slowest = nullptr;
  auto least = std::numeric_limits<std::uint64_t>::max();
  bool spares_new = false;
  for (auto& one : list_) {
    if (&one == asker || one.reserved() == 0 || (of == Of::heads && !one.is_head())) continue;
    // A body that has just begun has had no time to be fast, and is ended only where no older one holds memory.
    const bool is_new = one.is_new(now);
    if (is_new && spares_new) continue;
    if (!is_new && !std::exchange(spares_new, true)) slowest = nullptr;
    const auto recent = one.recent(now);
    if (slowest != nullptr && (recent > least || (recent == least && one.reserved() <= slowest->reserved()))) continue;
    slowest = &one;
    least = recent;
  }
  if (slowest == nullptr) return false;
  if (asker != nullptr && !asker->is_new(now) && asker->recent(now) < least) return false;
  slowest->give_way();
  return true;
}

}  // namespace weir::proxy::net
