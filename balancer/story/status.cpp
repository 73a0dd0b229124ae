#include "balancer/story/status.hpp"

namespace weir::balancer::story {

bool another_may_have_room(unsigned status) { return status == 408 || status == 429 || status == 503; }

bool has_no_room(unsigned status) { return status == 429 || status == 503; }

bool is_failure(unsigned status) { return (status >= 500 && status != 501 && status != 503) || status == 424; }

bool refuses_the_request(unsigned status) {
  return (status / 100 == 4 && !another_may_have_room(status) && !is_failure(status)) || status == 501;
}

bool refuses_the_content(unsigned status) {
  return refuses_the_request(status) && status / 100 == 4 && status != 401 && status != 403 && status != 499;
}

bool needs_second_opinion(unsigned status) { return status == 401 || status == 403 || status == 404 || status == 501; }

bool may_be_bettered(unsigned status, bool doubted) {
  return is_failure(status) || another_may_have_room(status) || needs_second_opinion(status) ||
         (doubted && refuses_the_request(status));
}

int error_rank(unsigned status) {
  if (status == 429) return 3;
  if (another_may_have_room(status)) return 2;
  return needs_second_opinion(status) ? 1 : 0;
}

}  // namespace weir::balancer::story
