#include "proxy/serve/key_check.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include "proxy/exchange/failure_answers.hpp"
#include "proxy/http/credential.hpp"

namespace weir::proxy::serve {
namespace {

using metrics::series::Denied;

constexpr std::string_view bad_request = "invalid_request_error";

/// True if the text holds the word in any case.
bool has_charset(std::string_view text) {
  constexpr std::string_view word = "charset";
  for (; text.size() >= word.size(); text.remove_prefix(1))
    if (http::same_token(text.substr(0, word.size()), word)) return true;
  return false;
}

/// True for a media type that every engine reads as JSON in UTF-8 (or in ASCII, a part of it).
bool is_json_in_utf8(std::string_view content_type) {
  const auto ends_in = [](std::string_view text, std::string_view end) {
    return text.size() >= end.size() && http::same_token(text.substr(text.size() - end.size()), end);
  };
  bool first = true;
  for (;;) {
    const auto end = content_type.find(';');
    const auto part = http::trim(content_type.substr(0, end));
    if (std::exchange(first, false)) {
      if (!http::same_token(part, "application/json") && !ends_in(part, "+json")) return false;
    } else if (part.find_first_of("\"'\\*") != part.npos || has_charset(part)) {
      constexpr std::string_view harmless[]{"charset=utf-8", "charset=\"utf-8\"", "charset=utf8", "charset=us-ascii",
                                            "charset=\"us-ascii\""};
      if (!http::is_among(harmless, part)) return false;
    }
    if (end == content_type.npos) return true;
    content_type.remove_prefix(end + 1);
  }
}

/// True if the head says that the body's bytes are something else than JSON in UTF-8. A head without a Content-Type
/// says nothing.
bool is_read_otherwise(const http::RequestHead& head) {
  return std::ranges::any_of(head.fields, [](const http::HeaderField& field) {
    return field.known == http::FieldName::content_encoding ||
           (field.known == http::FieldName::content_type && !is_json_in_utf8(field.value));
  });
}

}  // namespace

void cut_keys(const keys::ClientKeys& keys, std::string& head_bytes, http::RequestHead& head) {
  const auto is_key = [&keys](std::string_view text) { return keys.find(text) != nullptr; };
  if (http::cut_keys(head_bytes, head, is_key)) head = *http::parse_request_head(head_bytes);
}

std::optional<http::OwnAnswer> two_keys(const keys::ClientKeys* keys, const http::RequestHead& head) {
  const auto other = keys != nullptr ? http::other_credential_of(head) : std::string_view();
  if (other.empty() || keys->find(other) == nullptr || keys->find(http::credential_of(head)) == nullptr)
    return std::nullopt;
  return http::error_answer(400, bad_request, "bad_request",
                            "Authorization and x-api-key hold different keys; send one of them");
}

std::optional<Denied> find_key(const std::shared_ptr<const keys::ClientKeys>& keys,
                               const exchange::ClientMessage& message, exchange::ClientIdentity& client,
                               exchange::RequestIds& ids) {
  // A browser sends a preflight before the request of a page, without the page's credential.
  const bool open = message.route == http::Route::health || message.route == http::Route::preflight;
  if (!keys || open) return std::nullopt;
  const auto credential = http::credential_of(message.head), other = http::other_credential_of(message.head);
  const auto* key = keys->find(credential);
  if (key == nullptr) key = keys->find(other);
  if (key == nullptr) return credential.empty() ? Denied::no_key : Denied::wrong_key;
  client.key = {keys, key};
  if (http::holds_key(ids.client, credential) || http::holds_key(ids.client, other)) ids.client.clear();
  return std::nullopt;
}

http::OwnAnswer denied_answer(Denied why) {
  return http::error_answer(401, bad_request, "invalid_api_key",
                            why == Denied::no_key
                                ? "a key is needed here: send it as 'Authorization: Bearer KEY' or 'x-api-key: KEY'"
                                : "the key that was sent is not known here; ask whoever runs this service for one");
}

std::optional<http::OwnAnswer> model_refusal(const keys::ClientKey* key, const http::RequestHead& head,
                                             const metrics::wire::RequestFacts& facts) {
  if (key == nullptr || key->settings.models.empty()) return std::nullopt;
  const bool read_otherwise = is_read_otherwise(head);
  if (facts.whole_json && !facts.model_twice && !read_otherwise && key->may_use(facts.model)) return std::nullopt;
  std::string allowed;
  for (const auto& model : key->settings.models) allowed += (allowed.empty() ? "" : ", ") + model;
  const auto about = read_otherwise ? std::string(
                                          "has to send its body as application/json in UTF-8 and without a "
                                          "Content-Encoding: engines differ on what others mean")
                     : !facts.whole_json || facts.model.empty() ? std::string("has to name its model in a JSON body")
                     : facts.model_twice ? std::string("may name its model once: engines differ on which of two counts")
                                         : "may not use the model '" + facts.model + "'";
  return http::error_answer(
      403, bad_request, "model_not_allowed",
      "a request with the key '" + key->settings.name + "' " + about + "; the key is good for: " + allowed);
}

http::OwnAnswer key_busy_answer(const keys::ClientKey& key, std::chrono::milliseconds wait) {
  const auto most = std::to_string(key.settings.max_in_flight.value_or(0));
  return exchange::overloaded_answer(429, "key_max_in_flight",
                                     "the key '" + key.settings.name + "' has as many requests under way as it may, " +
                                         most + "; send this one again when one of them has ended",
                                     wait);
}

}  // namespace weir::proxy::serve
