#include "metrics/wire/dialects/own_error.hpp"

#include <utility>

#include "metrics/wire/json/write.hpp"

namespace weir::metrics::wire {

std::string openai_error_body(unsigned /*status*/, const OwnErrorWords& words) {
  boost::json::object error;
  error["message"] = json_text(words.message);
  error["type"] = json_text(words.type);
  error["param"] = nullptr;
  error["code"] = json_text(words.code);
  return boost::json::serialize(boost::json::object{{"error", std::move(error)}});
}

std::string openai_error_event(std::string_view message) {
  return "data: " + openai_error_body(0, {upstream_error, replica_lost, message}) + "\n\n";
}

}  // namespace weir::metrics::wire
