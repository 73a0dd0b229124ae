// Classifies the statuses of replicas' error answers: which of them another replica may better, and which of two tells
// the client more.
#pragma once

namespace weir::balancer::story {

/// The replica has no room now (408, 429, 503): another one may have.
bool another_may_have_room(unsigned status);

/// The replica says that it has no room now, and not that this request took too long (429, 503).
bool has_no_room(unsigned status);

/// The replica failed at its work: a 5xx, and 424, with which TGI says that a generation failed.
bool is_failure(unsigned status);

/// The replica works, and does not take such a request: another 4xx, or 501 where it lacks the route. Its health is
/// another matter.
bool refuses_the_request(unsigned status);

/// The replica does not take what the request asks (400, 404, 413, 422 and the like). A key, a time or a rate that it
/// refuses (401, 403, 408, 429), and a client that left (499), say nothing of that.
bool refuses_the_content(unsigned status);

/// The client may have erred, or this replica may be the wrong one (401, 403, 404, 501): another one tells.
bool needs_second_opinion(unsigned status);

/// True if another replica may better such an error, so that it is kept while one is asked. `doubted`: Lease::doubted.
bool may_be_bettered(unsigned status, bool doubted);

/// Orders error answers for the client, most useful last: a failure; 401, 403, 404 and 501; 408 and 503; 429. An error
/// inside a 200 stream is a failure.
int error_rank(unsigned status);

}  // namespace weir::balancer::story
