#include "proxy/control/bypass_api.hpp"

#include <spdlog/spdlog.h>

#include <boost/json.hpp>

namespace weir::proxy::control {
namespace {

constexpr std::string_view on_path = "/api/bypass/on", off_path = "/api/bypass/off";

}  // namespace

bool is_bypass_path(std::string_view path) { return path == on_path || path == off_path; }

ApiAnswer bypass_answer(std::atomic<bool>& bypass, std::string_view path) {
  const bool on = path == on_path;
  const bool changed = bypass.exchange(on) != on;
  if (changed && on) spdlog::warn(bypass_is_on);
  if (changed && !on) spdlog::warn("bypass is off: requests and answers are read again from now on");
  const boost::json::object done{{"bypass", on}, {"changed", changed}};
  return {200, boost::json::serialize(done) + "\n"};
}

}  // namespace weir::proxy::control
