#include "proxy/control/bypass_api.hpp"

#include "metrics/wire/json/writer.hpp"
#include "proxy/events/events.hpp"

namespace weir::proxy::control {

ApiAnswer bypass_answer(std::atomic<bool>& bypass, bool on) {
  const bool changed = bypass.exchange(on) != on;
  if (changed && on) events::warn(events::What::bypass, "", bypass_is_on);
  if (changed && !on)
    events::warn(events::What::bypass, "", "bypass is off: requests and answers are read again from now on");
  metrics::wire::JsonWriter json;
  return {200, json.open('{').key("bypass").boolean(on).key("changed").boolean(changed).close('}').written() + "\n"};
}

}  // namespace weir::proxy::control
