#include "proxy/admin/admin.hpp"

#include <spdlog/spdlog.h>
#include <sys/socket.h>

#include <algorithm>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http.hpp>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "config/table_reader.hpp"
#include "proxy/admin/api.hpp"
#include "proxy/admin/comparison_api.hpp"
#include "proxy/admin/live_api.hpp"
#include "proxy/admin/report.hpp"
#include "proxy/events/events.hpp"
#include "proxy/fleet/keep_running.hpp"
#include "proxy/net/address.hpp"
#include "proxy/net/channel.hpp"

namespace weir::proxy::admin {
namespace {

namespace asio = boost::asio;
namespace http = boost::beast::http;
using Protocol = asio::generic::stream_protocol;  // TCP, or a Unix-domain socket.
using Stream = boost::beast::basic_stream<Protocol, asio::io_context::executor_type>;
using Request = http::request<http::string_body>;
using Response = http::response<http::string_body>;
using metrics::series::OperatorRefusal;

/// A whole request comes within this time: from the connection's begin, later from the request's first byte.
constexpr std::chrono::seconds request_time{5};
/// So long a connection waits for its next request, and so long an answer may be taken.
constexpr std::chrono::seconds idle_time{30}, answer_time{30};
constexpr std::size_t worth_compressing = 1024;
/// The kernel holds so much of a stream: some seconds. A client that takes them late has the newest sooner.
constexpr int stream_buffer = 64 * 1024;
/// A stream looks so often whether there is a new second.
constexpr std::chrono::milliseconds stream_looks_every{200};
/// No gate is asked for while so many comparisons are under way.
constexpr std::size_t most_gates = SlowAnswers::most / 2;

ApiAnswer answer_of(const std::shared_ptr<ApiAnswer>& made) {
  if (made) return *made;
  return api_error(500, "internal_error", "weir failed at this answer");
}

/// A request to an operator's listener, taken apart.
struct Asked {
  Asked(const Request& request, AdminScope scope);

  bool reads = false;     ///< A GET or a HEAD.
  bool may_list = false;  ///< The listener answers /api/.
  std::string_view path, query, body;
  Sender sender;
  std::vector<std::string_view> authorization;
  /// True if only operators may know the answer. The metrics listener's pages are open.
  bool of_api() const { return may_list && path.starts_with("/api/"); }
};

Asked::Asked(const Request& request, AdminScope scope)
    : reads(request.method() == http::verb::get || request.method() == http::verb::head),
      may_list(scope == AdminScope::admin),
      path(request.target().data(), request.target().size()),
      body(request.body()) {
  const auto mark = path.find('?');
  if (mark != path.npos) query = path.substr(mark + 1);
  path = path.substr(0, mark);
  for (const auto& field : request) {
    const std::string_view value(field.value().data(), field.value().size());
    if (field.name() == http::field::host) sender.host.push_back(value);
    if (field.name() == http::field::origin) sender.origin.push_back(value);
    if (field.name() == http::field::content_type) sender.content_type.push_back(value);
    if (field.name() == http::field::authorization) authorization.push_back(value);
  }
}

void put(Response& response, ApiAnswer answer) {
  response.result(answer.status);
  response.set(http::field::content_type, answer.content_type);
  response.body() = std::move(answer.body);
}

/// No answer is kept by a browser, or read as another type than its own. A report is a page whose scripts stand in it:
/// it runs them, but apart from the origin whose page has the token.
void guard(Response& response) {
  const auto type = response[http::field::content_type];
  const bool is_page = std::string_view(type.data(), type.size()).starts_with("text/html");
  if (response.find(http::field::cache_control) == response.end()) response.set(http::field::cache_control, "no-store");
  if (response.find("Content-Security-Policy") == response.end())
    response.set("Content-Security-Policy",
                 is_page
                     ? "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; base-uri 'none'; "
                       "form-action 'none'; frame-ancestors 'none'; sandbox allow-scripts allow-downloads"
                     : "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; sandbox");
  response.set("X-Content-Type-Options", "nosniff");
}

void finish_answer(const Request& request, Response& response) {
  guard(response);
  response.set(http::field::vary, "Accept-Encoding");
  const auto accepted = request[http::field::accept_encoding];
  if (response.body().size() >= worth_compressing && accepts_gzip({accepted.data(), accepted.size()})) {
    response.body() = gzip(response.body());
    response.set(http::field::content_encoding, "gzip");
  }
  response.prepare_payload();
  if (request.method() == http::verb::head) response.body().clear();
}

/// The parts that an answer is made from.
struct Call {
  const Asked& asked;
  std::string_view name;  ///< The text in place of the route's NAME.
  const fleet::Snapshot& snapshot;
  AdminSources& weir;
};

using Answering = net::Awaitable<ApiAnswer>;

struct Route {
  AdminScope scope;  ///< The admin listener serves what the metrics listener serves, too.
  bool changes;      ///< Takes POST, and looks at the sender; other routes take GET and HEAD.
  std::string_view path;
  config::About about;
  Answering (*answer)(Call);
  bool takes_post =
      false;  ///< Changes nothing, and takes POST beside GET and HEAD: some controllers ask by POST alone.

  /// Returns the text in place of NAME, "" in a path without it; nothing if this is another path.
  std::optional<std::string_view> match(std::string_view asked) const {
    const auto name = path.find("NAME");
    if (name == path.npos) return asked == path ? std::optional<std::string_view>("") : std::nullopt;
    const auto before = path.substr(0, name), behind = path.substr(name + 4);
    if (asked.size() < before.size() + behind.size() || !asked.starts_with(before) || !asked.ends_with(behind))
      return std::nullopt;
    return asked.substr(before.size(), asked.size() - before.size() - behind.size());
  }
};

ApiAnswer plain(std::string body, unsigned status = 200) {
  return {status, std::move(body), "text/plain; charset=utf-8"};
}

template <bool drains>
Answering drain(Call call) {
  const auto now = std::chrono::steady_clock::now();
  co_return drain_answer(call.weir.fleet, call.name, drains, call.asked.body, now);
}

template <bool on>
Answering shadow(Call call) {
  co_return shadow_answer(call.snapshot, call.name, on, call.weir.history, std::chrono::steady_clock::now());
}

template <ApiAnswer (*made)(std::string_view query, const live::Live& live)>
Answering of_live(Call call) {
  co_return made(call.asked.query, call.weir.live);
}

template <Rollouts::Wish wish>
Answering rollout(Call call) {
  co_return call.weir.rollouts.carry_out(call.name, wish, std::chrono::steady_clock::now(), call.asked.body);
}

template <bool on>
Answering bypass(Call call) {
  co_return bypass_answer(call.weir.bypass, on);
}

constexpr Route routes[] = {
    {AdminScope::metrics, false, "/metrics", "Every [series](metrics.md) in Prometheus' text format.",
     [](Call call) -> Answering {
       co_return ApiAnswer{200, call.weir.exposition.text(), "text/plain; version=0.0.4; charset=utf-8"};
     }},
    {AdminScope::metrics, false, "/-/healthy", "200 while weir runs.",
     [](Call) -> Answering { co_return plain("healthy\n"); }},
    {AdminScope::metrics, false, "/-/ready", "200 while weir takes requests, else 503 with the reason.",
     [](Call call) -> Answering {
       const auto why_not = call.weir.why_not_ready();
       co_return why_not.empty() ? plain("ready\n") : plain("not ready: " + why_not + "\n", 503);
     }},
    {AdminScope::admin, false, "/api/live",
     "[The document](#the-document) of the present second: what `weir top` and the page show.",
     [](Call call) -> Answering {
       co_return live_answer(call.asked.query, call.weir.live, std::chrono::steady_clock::now());
     }},
    {AdminScope::admin, false, "/api/live/stream",
     "The same as server-sent events, one a second: first `live`, the document, then `change`, a JSON merge patch "
     "(RFC 7396). 16 streams at most.",
     of_live<stream_answer>},
    {AdminScope::admin, false, "/api/live/window",
     "The last `seconds` (1 to 900; 60) of each [figure](#figures-of-the-window), one number a second; "
     "`figures=A,B`, `pool`, `replica` or `shadow` choose. 200,000 numbers at most.",
     of_live<window_answer>},
    {AdminScope::admin, false, "/api/events",
     "The last 1,000 [events](#events); `since=SEQ` those behind that one (`missed`: how many are no longer kept), "
     "`limit=N` the last N.",
     of_live<events_answer>},
    {AdminScope::admin, false, "/api/report",
     "A page about the last minutes, or with `format=json` its data; `last=5m` says how many, 15m at most.",
     [](Call call) -> Answering {
       auto& weir = call.weir;
       co_return report_answer(call.asked.query, weir.live, weir.reload.settings());
     }},
    {AdminScope::admin, false, "/api/settings", "The settings in use, without secrets.",
     [](Call call) -> Answering { co_return settings_answer(call.weir.reload.settings()); }},
    {AdminScope::admin, false, "/api/compare",
     "The comparison of two sides, as [`weir compare --json`](../guides/compare.md) has it, over requests in memory.",
     [](Call call) -> Answering {
       auto& slow = call.weir.slow_answers;
       if (slow.is_full())
         co_return api_error(503, "busy", "other comparisons are being made; ask again in some seconds");
       co_return answer_of(
           co_await slow.make(comparison(call.asked.query, call.weir.history, call.snapshot), net::use_awaitable));
     }},
    {AdminScope::metrics, false, "/api/gate",
     "Whether a candidate may take over: 200 pass, 417 worse, 425 unknown ([rollouts](../guides/rollout.md)).",
     [](Call call) -> Answering {
       // The metrics listener is open to more people than operators, whose comparisons keep their places.
       auto& slow = call.weir.slow_answers;
       if (slow.under_way() >= most_gates)
         co_return api_error(503, "busy", "other comparisons are being made; ask again in some seconds");
       co_return answer_of(
           co_await slow.make(gate_answer(call.asked.query, call.weir.history, call.snapshot), net::use_awaitable));
     },
     true},
    {AdminScope::admin, false, "/api/rollout", "The rollouts, their state, share and last gate.",
     [](Call call) -> Answering { co_return call.weir.rollouts.list(); }},
    {AdminScope::admin, true, "/api/rollout/NAME/start", "Begins, or goes on after a pause.",
     rollout<Rollouts::Wish::start>},
    {AdminScope::admin, true, "/api/rollout/NAME/pause", "Keeps the share that the candidate has.",
     rollout<Rollouts::Wish::pause>},
    {AdminScope::admin, true, "/api/rollout/NAME/promote", "Takes the next step now; `{\"to\": \"25%\"}` that step.",
     rollout<Rollouts::Wish::promote>},
    {AdminScope::admin, true, "/api/rollout/NAME/abort", "Gives the candidate no more requests, at once.",
     rollout<Rollouts::Wish::abort>},
    {AdminScope::admin, true, "/-/reload", "Reloads the settings, and says what has changed.",
     [](Call call) -> Answering {
       co_return reload_answer(*co_await call.weir.reload.run("POST /-/reload", net::use_awaitable));
     }},
    {AdminScope::admin, true, "/api/replicas/NAME/drain",
     "Gives the replica no more requests; `{\"force\": true}` even if it is the last one.", drain<true>},
    {AdminScope::admin, true, "/api/replicas/NAME/undrain", "Gives it requests again.", drain<false>},
    {AdminScope::admin, true, "/api/shadow/NAME/on", "Switches a shadow on.", shadow<true>},
    {AdminScope::admin, true, "/api/shadow/NAME/off", "Switches it off.", shadow<false>},
    {AdminScope::admin, true, "/api/bypass/on", "Relays what comes without reading it.", bypass<true>},
    {AdminScope::admin, true, "/api/bypass/off", "Ends that.", bypass<false>},
};

bool is_served(const Route& route, AdminScope scope) {
  return scope == AdminScope::admin || route.scope == AdminScope::metrics;
}

ApiAnswer unknown_path(AdminScope scope) {
  std::string known = scope == AdminScope::admin ? "known here: /" : "known here:";
  bool changes = false;
  for (const auto& route : routes) {
    if (!is_served(route, scope)) continue;
    if (route.changes && !std::exchange(changes, true)) known += ", and by POST";
    known.append(" ").append(route.path);
  }
  return plain(known + "\n", 404);
}

void put_page(const Request& request, Response& response, const live::page::File& file) {
  for (const auto& [name, value] : page_fields) response.set({name.data(), name.size()}, {value.data(), value.size()});
  response.set(http::field::etag, {file.tag.data(), file.tag.size()});
  const auto known = request[http::field::if_none_match];
  if (names_tag({known.data(), known.size()}, file.tag)) {
    response.result(http::status::not_modified);
    return;
  }
  put(response, {200, std::string(file.text), std::string(file.content_type)});
}

/// Lets an address that has sent many wrong tokens wait for its turn. Returns false if it gets none.
net::Awaitable<bool> may_try(const net::PeerAddress& address, AdminSources& weir) {
  auto& wrong = weir.wrong_tokens;
  if (!wrong.slows(address, std::chrono::steady_clock::now())) co_return true;
  if (wrong.waiting >= WrongTokens::most_waiting) co_return false;
  ++wrong.waiting;
  net::Timer timer(co_await asio::this_coro::executor);
  timer.expires_after(WrongTokens::wait);
  boost::system::error_code ignored;
  co_await timer.async_wait(asio::redirect_error(net::use_awaitable, ignored));
  --wrong.waiting;
  co_return true;
}

void note_wrong_token(const net::PeerAddress& address, AdminSources& weir) {
  const auto line = weir.wrong_tokens.add(address, std::chrono::steady_clock::now());
  if (!line.empty()) events::warn(events::What::weir, "", "{}", line);
}

net::Awaitable<Response> answer(const Request& request, AdminScope scope, const net::PeerAddress& address,
                                AdminSources& weir) {
  Response response(http::status::ok, request.version());
  response.keep_alive(request.keep_alive());
  const Asked asked(request, scope);
  if (const auto* const file = asked.reads && asked.may_list ? page_file(asked.path) : nullptr) {
    put_page(request, response, *file);
    finish_answer(request, response);
    co_return response;
  }
  const auto snapshot = weir.fleet.snapshot();
  const auto& admin = snapshot->settings.admin;
  std::optional<std::string_view> name;
  const auto* const route = std::ranges::find_if(
      routes, [&](const Route& one) { return is_served(one, scope) && (name = one.match(asked.path)); });
  const bool known = route != std::end(routes);
  const bool changes = known && route->changes;
  // A page of another site, brought here by DNS rebinding or by a form, bears no token, and it cannot set the field
  // without asking first, which weir never allows. So a token makes the looks at Host and Origin needless; off loopback
  // they would refuse the names by which operators reach weir.
  const bool needs_token = asked.may_list && !admin.token.empty();
  const bool reads = asked.reads || (known && route->takes_post && request.method() == http::verb::post);
  const auto strange = needs_token ? std::string() : why_strange_host(asked.sender, admin.listen);
  const auto why_not = needs_token ? std::string() : why_no_change(asked.sender, admin.listen);
  const auto refused = [&weir](OperatorRefusal why) { weir.exposition.operator_refusals.add(why); };
  const bool tries = needs_token && !asked.authorization.empty();
  if (tries && !co_await may_try(address, weir)) {
    refused(OperatorRefusal::too_many);
    response.set(http::field::retry_after, "1");
    put(response, api_error(429, "too_many_tokens",
                            "many wrong tokens have come from this address, and others of it wait already: try again "
                            "soon"));
  } else if (needs_token && !bears_token(asked.authorization, admin.token)) {
    refused(tries ? OperatorRefusal::wrong_token : OperatorRefusal::no_token);
    if (tries) note_wrong_token(address, weir);
    response.set(http::field::www_authenticate, "Bearer");
    put(response,
        api_error(401, "no_token",
                  std::string(asked.authorization.empty() ? "this listener needs its token"
                                                          : "that is not the token of this listener") +
                      ": send \"Authorization: Bearer TOKEN\"; the commands of weir take it by --token-file FILE, or "
                      "from WEIR_ADMIN_TOKEN in the environment"));
  } else if (reads && asked.of_api() && !strange.empty()) {
    refused(OperatorRefusal::strange_host);
    put(response, api_error(403, "strange_host", strange));
  } else if (!known && asked.reads) {
    put(response, unknown_path(scope));
  } else if (changes ? request.method() != http::verb::post : !reads) {
    const std::string allowed = changes                                          ? "POST"
                                : route != std::end(routes) && route->takes_post ? "GET, HEAD, POST"
                                                                                 : "GET, HEAD";
    response.set(http::field::allow, allowed);
    put(response, plain("only " + allowed + " is answered here\n", 405));
  } else if (changes && !why_not.empty()) {
    refused(OperatorRefusal::not_allowed);
    put(response, api_error(403, "not_allowed", why_not));
  } else {
    put(response, co_await route->answer({asked, *name, *snapshot, weir}));
  }
  finish_answer(request, response);
  co_return response;
}

bool is_stream(const Request& request, const Response& response) {
  const auto type = response[http::field::content_type];
  return request.method() == http::verb::get && std::string_view(type.data(), type.size()) == event_stream;
}

/// Sends the live view, second by second, until the client leaves, or the listener has another token than the one with
/// which it came. The answer ends with the connection.
net::Awaitable<void> send_stream(Stream& stream, AdminSources& weir, const std::string& token) {
  using Clock = std::chrono::steady_clock;
  const live::Live::StreamPlace open(weir.live);
  boost::system::error_code ignored;
  stream.socket().set_option(asio::socket_base::send_buffer_size(stream_buffer), ignored);
  LiveStream events(weir.live, Clock::now());
  std::string bytes =
      "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nCache-Control: no-store\r\nX-Accel-Buffering: no\r\n"
      "X-Content-Type-Options: nosniff\r\nContent-Security-Policy: default-src 'none'; frame-ancestors 'none'\r\n"
      "Connection: close\r\n\r\n";
  bytes += events.next(Clock::now());
  net::Timer timer(stream.get_executor());
  for (boost::system::error_code error; !error; bytes = events.next(Clock::now())) {
    auto wake = asio::redirect_error(net::use_awaitable, error);
    if (!bytes.empty()) {
      stream.expires_after(answer_time);
      const auto buffer = asio::buffer(bytes);
      co_await asio::async_write(stream, buffer, wake);
      stream.expires_never();
      if (error) break;
    }
    timer.expires_after(stream_looks_every);
    co_await timer.async_wait(wake);
    if (weir.fleet.snapshot()->settings.admin.token != token) break;
  }
}

/// The place of one connection, which its end gives back.
class Place {
 public:
  Place(std::shared_ptr<OperatorPlaces> all, Stream& stream)
      : all_(std::move(all)), at_(all_->insert(all_->end(), [&stream] { stream.close(); })) {}
  ~Place() { all_->erase(at_); }
  Place(const Place&) = delete;
  Place& operator=(const Place&) = delete;

 private:
  const std::shared_ptr<OperatorPlaces> all_;
  const OperatorPlaces::iterator at_;
};

net::Awaitable<void> run(Stream stream, AdminScope scope, AdminSources& weir) {
  const auto address = net::peer_address(stream.socket().native_handle());
  const Place place(weir.places_of(scope), stream);
  boost::beast::flat_buffer buffer;
  for (bool more = true, first = true; more; first = false) {
    boost::system::error_code error;
    auto token = asio::redirect_error(net::use_awaitable, error);
    Request request;
    if (!first && buffer.size() == 0) {
      stream.expires_after(idle_time);
      const auto room = buffer.prepare(512);
      const auto size = co_await stream.async_read_some(room, token);
      if (error) break;
      buffer.commit(size);
    }
    stream.expires_after(request_time);
    co_await http::async_read(stream, buffer, request, token);
    if (error) break;
    const auto operators_token = weir.fleet.snapshot()->settings.admin.token;
    auto response = co_await answer(request, scope, address, weir);
    if (is_stream(request, response)) {
      co_await send_stream(stream, weir, operators_token);
      break;
    }
    // A client that sends requests ahead of their answers would keep this thread busy, and all operators wait for it.
    if (buffer.size() > 0) response.keep_alive(false);
    stream.expires_after(answer_time);
    co_await http::async_write(stream, response, token);
    more = !error && response.keep_alive();
  }
  boost::system::error_code ignored;
  stream.socket().shutdown(asio::socket_base::shutdown_send, ignored);
}

/// Closes the oldest connection, which ends when the context runs on. Its place goes behind the others until then.
void make_room(AdminSources& weir, AdminScope scope) {
  auto& places = *weir.places_of(scope);
  places.front()();
  places.splice(places.end(), places, places.begin());
  const auto now = std::chrono::steady_clock::now();
  if (now < weir.warned) return;
  weir.warned = now + std::chrono::minutes(1);
  spdlog::warn(
      "{} connections to the {} listener are open: the oldest goes for each that comes (said at most once a minute)",
      most_operators, scope == AdminScope::admin ? "admin" : "metrics");
}

}  // namespace

std::vector<AdminPath> admin_paths() {
  std::vector<AdminPath> paths;
  for (const auto& route : routes) paths.push_back({route.scope, route.changes, route.path, route.about.text()});
  return paths;
}

void start_admin_session(asio::io_context& context, net::UniqueFd client, AdminScope scope, AdminSources& weir) {
  if (weir.places_of(scope)->size() >= most_operators) make_room(weir, scope);
  asio::basic_stream_socket<Protocol, asio::io_context::executor_type> socket(context.get_executor());
  boost::system::error_code error;
  socket.assign(Protocol(AF_UNSPEC, 0), client.get(), error);  // Asio asks for no more than that it is a stream.
  if (error) return;
  client.release();
  asio::co_spawn(context, run(Stream(std::move(socket)), scope, weir),
                 fleet::Unawaited(weir.fleet.internal_errors(), metrics::series::Part::operators,
                                  "the operator's connection is closed"));
}

const live::page::File* page_file(std::string_view path) {
  const auto all = live::page::files();
  const auto found = std::ranges::find(all, path, &live::page::File::path);
  return found == all.end() ? nullptr : &*found;
}

bool names_tag(std::string_view if_none_match, std::string_view tag) {
  const auto opaque = [](std::string_view one) { return one.starts_with("W/") ? one.substr(2) : one; };
  const auto is_blank = [](char c) { return c == ' ' || c == '\t'; };
  while (!if_none_match.empty()) {
    const auto comma = std::min(if_none_match.find(','), if_none_match.size());
    auto one = if_none_match.substr(0, comma);
    if_none_match.remove_prefix(std::min(comma + 1, if_none_match.size()));
    while (!one.empty() && is_blank(one.front())) one.remove_prefix(1);
    while (!one.empty() && is_blank(one.back())) one.remove_suffix(1);
    if (one == "*" || opaque(one) == opaque(tag)) return true;
  }
  return false;
}

}  // namespace weir::proxy::admin
