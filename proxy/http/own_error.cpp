#include "proxy/http/own_error.hpp"

#include <boost/json/serialize.hpp>
#include <boost/json/value.hpp>

namespace weir::proxy::http {
namespace {

using metrics::Api;

boost::json::string text(std::string_view s) { return boost::json::string(s.data(), s.size()); }

boost::json::object openai(std::string_view type, std::string_view code, std::string_view message) {
  boost::json::object error;
  error["message"] = text(message);
  error["type"] = text(type);
  error["param"] = nullptr;
  error["code"] = text(code);
  return {{"error", std::move(error)}};
}

boost::json::object anthropic(std::string_view type, std::string_view message) {
  boost::json::object error;
  error["type"] = text(type);
  error["message"] = text(message);
  return {{"type", "error"}, {"error", std::move(error)}};
}

/// Anthropic's own words, by status (its API reference, "Errors").
std::string_view anthropic_type(unsigned status) {
  switch (status) {
    case 404:
      return "not_found_error";
    case 413:
      return "request_too_large";
    case 429:
      return "rate_limit_error";
    case 503:
      return "overloaded_error";
    case 504:
      return "timeout_error";
    default:
      return status >= 500 ? "api_error" : "invalid_request_error";
  }
}

}  // namespace

std::string error_body(Api api, unsigned status, const OwnError& error) {
  const auto body = api == Api::anthropic_messages ? anthropic(anthropic_type(status), error.message)
                                                   : openai(error.type, error.code, error.message);
  return boost::json::serialize(body) + "\n";
}

std::string error_event(Api api, std::string_view message) {
  switch (api) {
    case Api::anthropic_messages:
      return "event: error\ndata: " + boost::json::serialize(anthropic("api_error", message)) + "\n\n";
    case Api::openai_responses: {
      const boost::json::object event{
          {"type", "error"}, {"code", "replica_lost"}, {"message", text(message)}, {"param", nullptr}};
      return "event: error\ndata: " + boost::json::serialize(event) + "\n\n";
    }
    case Api::tgi_generate: {
      const boost::json::object event{{"error", text(message)}, {"error_type", "upstream_error"}};
      return "data:" + boost::json::serialize(event) + "\n\n";
    }
    case Api::ollama_chat:
    case Api::ollama_generate:
      return boost::json::serialize(boost::json::object{{"error", text(message)}}) + "\n";
    default:
      return "data: " + boost::json::serialize(openai("upstream_error", "replica_lost", message)) + "\n\n";
  }
}

}  // namespace weir::proxy::http
