// Event streams of other APIs are relayed. weir looks only for a refusal in them.
#include "metrics/wire/dialects/dialect.hpp"
#include "metrics/wire/json/text.hpp"

namespace weir::metrics::wire {

namespace {

bool read_event(std::string_view data, EventFacts& facts) {
  if (data.front() == '{') {
    // Data that is not JSON is not broken here, because no format promises JSON.
    for_each_field_of(data, [&](simdjson::ondemand::raw_json_string key, simdjson::ondemand::value& part) {
      if (key == "error") facts.error |= says_error(part);
      return true;
    });
  }
  facts.carries_choice = !facts.error;
  return true;
}

}  // namespace

constinit const Dialect dialects::other{
    .api = Api::other,
    .routes = {},
    .read_event = read_event,
    .end = StreamEnd::any,
};

}  // namespace weir::metrics::wire
