#include "metrics/wire/dialects/own_error.hpp"

#include "metrics/wire/json/writer.hpp"

namespace weir::metrics::wire {

std::string openai_error_body(unsigned /*status*/, const OwnError& error) {
  JsonWriter body;
  body.open('{').key("error").open('{').key("message").text(error.message).key("type").text(error.type);
  return body.key("param").null().key("code").text(error.code).close('}').close('}').written();
}

std::string openai_error_event(unsigned status, const OwnError& error) {
  return "data: " + openai_error_body(status, error) + "\n\n";
}

}  // namespace weir::metrics::wire
