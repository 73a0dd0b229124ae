#include "proxy/serve/key_check.hpp"

#include <string>

#include "proxy/http/credential.hpp"
#include "proxy/http/request_id.hpp"

namespace weir::proxy::serve {
namespace {

using metrics::series::Denied;

constexpr std::string_view bad_request = "invalid_request_error";

}  // namespace

void take_out_keys(exchange::ClientRequest& request) {
  const auto* const keys = request.snapshot->keys.get();
  if (keys == nullptr) return;
  const auto is_key = [keys](std::string_view text) { return keys->find(text) != nullptr; };
  if (http::cut_keys(request.head_bytes, request.head, is_key)) {
    request.head = *http::parse_request_head(request.head_bytes);
    request.client_id = http::valid_request_id(request.head["x-request-id"]).value_or("");
  }
  if (http::holds_key(request.client_id, {})) request.client_id.clear();
  request.request_id = request.client_id.empty() ? request.id : request.client_id;
}

std::optional<RequestRefusal> two_keys(const exchange::ClientRequest& request) {
  const auto& keys = request.snapshot->keys;
  const auto other = keys ? http::other_credential_of(request.head) : std::string_view();
  if (other.empty() || keys->find(other) == nullptr || keys->find(http::credential_of(request.head)) == nullptr)
    return std::nullopt;
  return RequestRefusal{400, "Authorization and x-api-key hold different keys; send one of them"};
}

std::optional<Denied> find_key(exchange::ClientRequest& request) {
  const auto& snapshot = *request.snapshot;
  // A browser sends a preflight before the request of a page, without the page's credential.
  const bool open = request.route == http::Route::health || request.route == http::Route::preflight;
  if (!snapshot.keys || open) return std::nullopt;
  const auto credential = http::credential_of(request.head), other = http::other_credential_of(request.head);
  request.key = snapshot.keys->find(credential);
  if (request.key == nullptr) request.key = snapshot.keys->find(other);
  if (request.key != nullptr) {
    // A key that stands there goes neither to a replica nor into the log.
    if (http::holds_key(request.client_id, credential) || http::holds_key(request.client_id, other)) {
      request.client_id.clear();
      request.request_id = request.id;
    }
    return std::nullopt;
  }
  return credential.empty() ? Denied::no_key : Denied::wrong_key;
}

http::OwnAnswer denied_answer(Denied why) {
  return http::error_answer(401, bad_request, "invalid_api_key",
                            why == Denied::no_key
                                ? "a key is needed here: send it as 'Authorization: Bearer KEY' or 'x-api-key: KEY'"
                                : "the key that was sent is not known here; ask whoever runs this service for one");
}

std::optional<http::OwnAnswer> model_refusal(const exchange::ClientRequest& request) {
  if (request.key == nullptr || request.key->settings.models.empty()) return std::nullopt;
  const auto& facts = request.facts;
  if (facts.whole_json && !facts.model_twice && request.key->may_use(facts.model)) return std::nullopt;
  std::string allowed;
  for (const auto& model : request.key->settings.models) allowed += (allowed.empty() ? "" : ", ") + model;
  const auto about = !facts.whole_json || facts.model.empty() ? std::string("has to name its model in a JSON body")
                     : facts.model_twice ? std::string("may name its model once: engines differ on which of two counts")
                                         : "may not use the model '" + facts.model + "'";
  return http::error_answer(
      403, bad_request, "model_not_allowed",
      "a request with the key '" + request.key->settings.name + "' " + about + "; the key is good for: " + allowed);
}

http::OwnAnswer key_busy_answer(const keys::ClientKey& key, std::chrono::milliseconds wait) {
  const auto most = std::to_string(key.settings.max_in_flight.value_or(0));
  auto answer = http::error_answer(429, "overloaded_error", "key_max_in_flight",
                                   "the key '" + key.settings.name + "' has as many requests under way as it may, " +
                                       most + "; send this one again when one of them has ended");
  answer.retry_after = wait;
  return answer;
}

}  // namespace weir::proxy::serve
