#include "metrics/wire/dialects/own_error.hpp"

#include <utility>

#include "metrics/wire/json/write.hpp"

namespace weir::metrics::wire {

std::string openai_error_body(unsigned /*status*/, const OwnError& error) {
  boost::json::object words;
  words["message"] = json_text(error.message);
  words["type"] = json_text(error.type);
  words["param"] = nullptr;
  words["code"] = json_text(error.code);
  return boost::json::serialize(boost::json::object{{"error", std::move(words)}});
}

std::string openai_error_event(std::string_view message) {
  return "data: " +
         openai_error_body(0, {std::string(upstream_error), std::string(replica_lost), std::string(message)}) + "\n\n";
}

}  // namespace weir::metrics::wire
