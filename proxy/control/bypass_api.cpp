#include "proxy/control/bypass_api.hpp"

#include <spdlog/spdlog.h>

#include <boost/json.hpp>

namespace weir::proxy::control {

ApiAnswer bypass_answer(std::atomic<bool>& bypass, bool on) {
  const bool changed = bypass.exchange(on) != on;
  if (changed && on) spdlog::warn(bypass_is_on);
  if (changed && !on) spdlog::warn("bypass is off: requests and answers are read again from now on");
  const boost::json::object done{{"bypass", on}, {"changed", changed}};
  return {200, boost::json::serialize(done) + "\n"};
}

}  // namespace weir::proxy::control
