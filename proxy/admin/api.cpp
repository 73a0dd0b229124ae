#include "proxy/admin/api.hpp"

#include <openssl/crypto.h>
#include <openssl/sha.h>
#include <simdjson.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <boost/beast/core/string.hpp>
#include <boost/url.hpp>
#include <cctype>
#include <new>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "config/address.hpp"
#include "config/command_line.hpp"
#include "config/values.hpp"
#include "metrics/wire/json/writer.hpp"
#include "proxy/events/events.hpp"
#include "proxy/http/head.hpp"

namespace weir::proxy::admin {
namespace {

using metrics::wire::JsonWriter;

/// Ends the outermost object of an answer.
ApiAnswer answer_of(JsonWriter& json) { return {200, json.close('}').written() + "\n"}; }

/// Tells the state of an undrained replica: an operator wants to know whether it takes requests. One that is ejected is
/// taken back.
void tell_undrained(JsonWriter& json, const fleet::Snapshot& snapshot, const std::string& name, metrics::Moment now) {
  for (const auto& pool : snapshot.pools) {
    for (const auto& replica : pool->replicas) {
      if (replica->settings.name != name) continue;
      json.key("pardoned").boolean(pool->balancer->health().pardon(replica->key, now));
      const auto health = pool->balancer->health().of(replica->key, now);
      json.key("state").text(metrics::name_of(health.state)).key("reason").text(health.reason);
    }
  }
}

/// Returns whether the body asks for force, or nothing if it is no such object.
std::optional<bool> forced(std::string_view body) {
  if (body.find_first_not_of(" \t\r\n") == body.npos) return false;
  simdjson::dom::parser parser;
  simdjson::dom::object object;
  if (parser.parse(body.data(), body.size()).get(object)) return std::nullopt;
  bool force = false;
  for (const auto& [name, value] : object)
    if (name != "force" || value.get(force)) return std::nullopt;
  return force;
}

}  // namespace

ApiAnswer drain_answer(fleet::Fleet& fleet, std::string_view replica, bool drains, std::string_view body,
                       metrics::Moment now) {
  const std::string name(replica);
  const auto force = forced(body);
  if (!force)
    return api_error(400, "bad_body",
                     "the body must be empty, or a JSON object with nothing but \"force\": true or false");
  bool changed = false;
  switch (fleet.set_draining(name, drains, *force)) {
    case fleet::Fleet::Draining::unknown:
      return api_error(404, "unknown_replica", "no replica is named '" + name + "'; GET /api/live lists them");
    case fleet::Fleet::Draining::last_one:
      return api_error(409, "last_replica",
                       "'" + name +
                           "' is the last replica of its pool that is up: without it requests would be refused; "
                           "bring another one up first, or drain it all the same: weir drain " +
                           name + " --force, or {\"force\": true} over HTTP");
    case fleet::Fleet::Draining::already:
      break;
    case fleet::Fleet::Draining::set:
      changed = true;
  }
  JsonWriter json;
  json.open('{').key("changed").boolean(changed).key("name").text(name).key("draining").boolean(drains);
  if (!drains) tell_undrained(json, *fleet.snapshot(), name, now);
  return answer_of(json);
}

ApiAnswer settings_answer(const config::Settings& settings) {
  JsonWriter json;
  json.open('{').key("settings").open('[');
  for (const auto& listed : config::listing_of(settings)) {
    json.open('{').key("name").text(listed.name).key("within").text(listed.within).key("keys").open('{');
    for (const auto& key : listed.keys) json.key(key.key).text(key.value);
    json.close('}').close('}');
  }
  json.close(']').key("overridden").texts(settings.overridden);
  return answer_of(json);
}

ApiAnswer reload_answer(const Reload::Result& result) {
  JsonWriter json;
  switch (result.kind) {
    case Reload::Result::Kind::done:
      json.open('{').key("changes").texts(result.changes);
      return answer_of(json);
    case Reload::Result::Kind::busy:
      return api_error(409, "reload_under_way", result.errors.front());
    case Reload::Result::Kind::refused:
      return api_error(409, "not_now", result.errors.front());
    case Reload::Result::Kind::failed:
      break;
  }
  auto answer = api_error(400, "bad_settings",
                          "the settings cannot be used, and nothing has changed; \"errors\" says why: " +
                              std::to_string(result.errors.size()));
  answer.body.resize(answer.body.rfind('}'));  // "errors" is the last member.
  json.texts(result.errors);
  answer.body += ",\"errors\":" + json.written() + "}\n";
  return answer;
}

std::optional<std::vector<std::pair<std::string, std::string>>> parameters_of(std::string_view query) {
  std::vector<std::pair<std::string, std::string>> all;
  if (query.empty()) return all;
  // boost::urls::parse_query of Boost 1.81 takes the length of its text from a terminating zero.
  const std::string target = "/?" + std::string(query);
  const auto parsed = boost::urls::parse_origin_form(target);
  if (!parsed) return std::nullopt;
  for (const auto& one : parsed->params()) all.emplace_back(one.key, one.value);
  return all;
}

std::string repeated_parameter(const std::vector<std::pair<std::string, std::string>>& parameters) {
  std::set<std::string_view> seen;
  for (const auto& [name, value] : parameters)
    if (!seen.insert(name).second) return name + " is there twice; leave one out";
  return {};
}

ApiAnswer bad_query(const std::string& sentence) { return api_error(400, "bad_query", sentence); }

std::string unknown_parameter(std::string_view name, const std::vector<std::string_view>& known) {
  std::string all;
  for (const auto& one : known) all.append(all.empty() ? "" : ", ").append(one);
  const auto meant = config::nearest(std::string(name), known);
  return "unknown parameter '" + std::string(name) + "'; " +
         (meant.empty() ? "known are " + all : "did you mean " + std::string(meant) + "?");
}

namespace {

std::string_view trimmed(std::string_view text) {
  const auto begin = text.find_first_not_of(" \t");
  if (begin == text.npos) return {};
  return text.substr(begin, text.find_last_not_of(" \t") - begin + 1);
}

/// Takes the text before the next `mark` off the front of `text`.
std::string_view take_until(std::string_view& text, char mark) {
  const auto end = text.find(mark);
  const auto part = text.substr(0, end);
  text = end == text.npos ? std::string_view() : text.substr(end + 1);
  return trimmed(part);
}

/// True for "q=0": a weight of 0 is written with zeros alone.
bool forbids(std::string_view parameter) {
  if (parameter.size() < 3 || (parameter[0] != 'q' && parameter[0] != 'Q') || parameter[1] != '=') return false;
  return parameter.substr(2).find_first_not_of("0.") == parameter.npos;
}

}  // namespace

bool accepts_gzip(std::string_view accept_encoding) {
  std::optional<bool> named, any;
  while (!accept_encoding.empty()) {
    auto element = take_until(accept_encoding, ',');
    const auto coding = take_until(element, ';');
    bool allowed = true;
    while (!element.empty()) allowed &= !forbids(take_until(element, ';'));
    if (boost::beast::iequals(coding, "gzip") || boost::beast::iequals(coding, "x-gzip")) named = allowed;
    if (coding == "*") any = allowed;
  }
  return named ? *named : any.value_or(false);
}

std::string gzip(std::string_view text) {
  constexpr int fastest_that_pays = 4;  // Level 6 takes twice the time for a tenth less.
  constexpr int window_and_gzip_frame = 15 + 16;
  constexpr int memory = 8;
  z_stream stream{};
  if (::deflateInit2(&stream, fastest_that_pays, Z_DEFLATED, window_and_gzip_frame, memory, Z_DEFAULT_STRATEGY) != Z_OK)
    throw std::bad_alloc();
  std::string out(::deflateBound(&stream, text.size()), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  const int done = ::deflate(&stream, Z_FINISH);
  out.resize(stream.total_out);
  ::deflateEnd(&stream);
  if (done != Z_STREAM_END) throw std::bad_alloc();
  return out;
}

ApiAnswer shadow_answer(const fleet::Snapshot& snapshot, std::string_view name, bool on, History& history,
                        metrics::Moment now) {
  const auto* const shadow = shadows::shadow_of(snapshot, name);
  if (shadow == nullptr)
    return api_error(404, "unknown_shadow", "no shadow is named '" + std::string(name) + "'; GET /api/live lists them");
  const bool changed = shadows::switch_shadow(*shadow, on, history, now);
  JsonWriter json;
  json.open('{').key("name").text(name).key("on").boolean(on).key("changed").boolean(changed);
  return answer_of(json);
}

ApiAnswer bypass_answer(std::atomic<bool>& bypass, bool on) {
  const bool changed = bypass.exchange(on) != on;
  if (changed && on) events::warn(events::What::bypass, "", bypass_is_on);
  if (changed && !on)
    events::warn(events::What::bypass, "", "bypass is off: requests and answers are read again from now on");
  metrics::wire::JsonWriter json;
  return {200, json.open('{').key("bypass").boolean(on).key("changed").boolean(changed).close('}').written() + "\n"};
}

namespace {

using Digest = std::array<unsigned char, SHA256_DIGEST_LENGTH>;

Digest digest_of(std::string_view text) {
  Digest digest;
  SHA256(reinterpret_cast<const unsigned char*>(text.data()), text.size(), digest.data());
  return digest;
}

}  // namespace

bool bears_token(std::span<const std::string_view> authorization, const std::string& token) {
  constexpr std::string_view scheme = "Bearer ";
  if (authorization.size() != 1) return false;
  const auto field = authorization.front();
  if (field.size() < scheme.size() || !proxy::http::same_token(field.substr(0, scheme.size()), scheme)) return false;
  // Digests have one length, and nobody can choose a token whose digest begins as the right one does.
  const auto sent = digest_of(field.substr(scheme.size())), wanted = digest_of(token);
  return CRYPTO_memcmp(sent.data(), wanted.data(), wanted.size()) == 0;
}

std::string WrongTokens::add(const net::PeerAddress& address, metrics::Moment now) {
  accounts_.charge(address, 1, forgiven_a_second, now);
  if (now - said_ < std::chrono::minutes(1)) return ++unsaid_, "";
  said_ = now;
  const auto others = std::exchange(unsaid_, 0);
  const auto from = address == net::PeerAddress{} ? "a Unix-domain socket" : config::to_text(config::Network{address});
  return "a wrong token was sent to the admin listener from " + from +
         (others > 0 ? ", and " + std::to_string(others) + " more since this was last said" : "") +
         " (said at most once a minute)";
}

namespace {

std::string lower(std::string_view text) {
  std::string all(text);
  std::ranges::transform(all, all.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return all;
}

/// Returns the name or address of "name:port" and "[address]:port"; "" for anything else.
std::string host_of(std::string_view authority) {
  const auto is_port = [](std::string_view text) {
    return text.size() <= 5 && std::ranges::all_of(text, [](char c) { return c >= '0' && c <= '9'; });
  };
  if (authority.starts_with('[')) {
    const auto end = authority.find(']');
    if (end == authority.npos) return "";
    const auto rest = authority.substr(end + 1);
    if (!rest.empty() && (rest.front() != ':' || !is_port(rest.substr(1)))) return "";
    return lower(authority.substr(1, end - 1));
  }
  const auto colon = authority.find(':');
  if (colon != authority.npos && !is_port(authority.substr(colon + 1))) return "";
  return lower(authority.substr(0, colon));
}

bool is_json(std::string_view content_type) {
  auto type = lower(content_type.substr(0, content_type.find(';')));
  while (type.ends_with(' ') || type.ends_with('\t')) type.pop_back();
  return type == "application/json";
}

}  // namespace

std::string why_strange_host(const Sender& sender, const std::optional<config::ListenAddress>& listen) {
  const auto host = sender.host.size() == 1 ? host_of(sender.host.front()) : std::string();
  if (!host.empty() && (config::is_loopback(host) || (listen && host == listen->host))) return "";
  return "the Host of this request is not weir's own: ask at a loopback address or at \"localhost\"";
}

std::string why_no_change(const Sender& sender, const std::optional<config::ListenAddress>& listen) {
  if (auto why = why_strange_host(sender, listen); !why.empty()) return why;
  for (const auto origin : sender.origin)
    if (lower(origin) != "http://" + lower(sender.host.front()))
      return "the Origin of this request is another site: a page of a browser may not change weir";
  if (sender.content_type.size() != 1 || !is_json(sender.content_type.front()))
    return "a request that changes weir needs the field \"Content-Type: application/json\"";
  return "";
}

}  // namespace weir::proxy::admin
