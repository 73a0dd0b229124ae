#include "proxy/compare/gate.hpp"

#include <algorithm>

namespace weir::proxy::compare {

using metrics::compare::comparison::State;
using metrics::compare::statistics::Finding;

bool fails(const Request& request, State state, std::span<const Judgement> judgements) {
  if (!request.fail_if_worse && !request.fail_if_inconclusive && !request.fail_if_too_few) return false;
  const auto any = [&](Finding finding) {
    return std::ranges::any_of(judgements, [&](const Judgement& one) {
      return one.finding == finding && (finding == Finding::worse || !is_tail(one.metric));
    });
  };
  if (std::ranges::none_of(judgements, &Judgement::known)) return true;
  return (request.fail_if_worse && any(Finding::worse)) ||
         (request.fail_if_inconclusive && any(Finding::inconclusive)) ||
         (request.fail_if_too_few && state != State::final);
}

}  // namespace weir::proxy::compare
