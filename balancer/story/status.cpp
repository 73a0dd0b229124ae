#include "balancer/story/status.hpp"

namespace weir::balancer::story {

bool is_full(unsigned status) { return status == 408 || status == 429 || status == 503; }

bool has_no_room(unsigned status) { return status == 429 || status == 503; }

bool refuses_the_request(unsigned status) { return (status / 100 == 4 && !is_full(status)) || status == 501; }

bool needs_second_opinion(unsigned status) { return status == 401 || status == 403 || status == 404 || status == 501; }

int error_rank(unsigned status) {
  if (status == 429) return 3;
  if (is_full(status)) return 2;
  return needs_second_opinion(status) ? 1 : 0;
}

}  // namespace weir::balancer::story
