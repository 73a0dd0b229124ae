#include "proxy/http/own_error.hpp"

#include "metrics/wire/dialects/dialect.hpp"

namespace weir::proxy::http {

std::string error_body(metrics::Api api, unsigned status, const OwnError& error) {
  return metrics::wire::dialect_of(api).error_body(status, {error.type, error.code, error.message}) + "\n";
}

std::string error_event(metrics::Api api, std::string_view message) {
  return metrics::wire::dialect_of(api).error_event(message);
}

}  // namespace weir::proxy::http
