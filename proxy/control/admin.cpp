#include "proxy/control/admin.hpp"

#include <spdlog/spdlog.h>

#include <sys/socket.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http.hpp>
#include <string_view>
#include <vector>

#include "proxy/control/admin_token.hpp"
#include "proxy/control/api.hpp"
#include "proxy/control/bypass_api.hpp"
#include "proxy/control/change_guard.hpp"
#include "proxy/control/compare_api.hpp"
#include "proxy/control/gzip.hpp"
#include "proxy/control/shadow_api.hpp"
#include "proxy/fleet/keep_running.hpp"
#include "proxy/net/awaitable.hpp"

namespace weir::proxy::control {
namespace {

namespace asio = boost::asio;
namespace http = boost::beast::http;
using Protocol = asio::generic::stream_protocol;  // It is TCP, or a Unix-domain socket.
using Stream = boost::beast::basic_stream<Protocol, asio::io_context::executor_type>;
using Request = http::request<http::string_body>;
using Response = http::response<http::string_body>;

/// A whole request comes within this time: from the connection's begin, later from the request's first byte.
constexpr std::chrono::seconds request_time{5};
/// So long a connection waits for its next request, and so long an answer may be taken.
constexpr std::chrono::seconds idle_time{30}, answer_time{30};
constexpr std::size_t worth_compressing = 1024;

constexpr std::string_view reload_path = "/-/reload", replicas_path = "/api/replicas", settings_path = "/api/settings",
                           compare_path = "/api/compare";

/// A request to an operator's listener, taken apart.
struct Asked {
  Asked(const Request& request, AdminScope scope);

  bool reads = false;     ///< It is a GET or a HEAD.
  bool may_list = false;  ///< The listener answers /api/.
  std::string_view path, query;
  Sender sender;
  std::vector<std::string_view> authorization;
  /// True if the answer tells what only operators may know. What the metrics listener tells too is open.
  bool reads_api() const { return reads && may_list && path.starts_with("/api/"); }
  bool is_change() const {
    return may_list && (path == reload_path || is_drain_path(path) || is_shadow_path(path) || is_bypass_path(path));
  }
};

/// The doors of the admin listener, by its settings. A page of another site, brought here by DNS rebinding or by a
/// form, bears no token, and it cannot set the field without asking first, which weir never allows. So a token makes
/// the looks at Host and Origin needless; off loopback they would refuse the names by which operators reach weir.
class Doors {
 public:
  Doors(const Asked& asked, const config::AdminListener& admin)
      : asked_(asked), admin_(admin), needs_token_(asked.may_list && !admin.token.empty()) {}
  bool lacks_token() const { return needs_token_ && !bears_token(asked_.authorization, admin_.token); }
  std::string why_not_read() const { return needs_token_ ? "" : why_strange_host(asked_.sender, admin_.listen); }
  std::string why_no_change() const { return needs_token_ ? "" : control::why_no_change(asked_.sender, admin_.listen); }

 private:
  const Asked& asked_;
  const config::AdminListener& admin_;
  const bool needs_token_;
};

Asked::Asked(const Request& request, AdminScope scope)
    : reads(request.method() == http::verb::get || request.method() == http::verb::head),
      may_list(scope == AdminScope::admin),
      path(request.target().data(), request.target().size()) {
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
  response.set(http::field::content_type, "application/json");
  response.body() = std::move(answer.body);
}

void refuse_method(Response& response, std::string_view allowed) {
  response.result(http::status::method_not_allowed);
  response.set(http::field::allow, boost::beast::string_view(allowed.data(), allowed.size()));
  response.body() = "only " + std::string(allowed) + " is answered here\n";
}

Response begin_answer(const Request& request) {
  Response response(http::status::ok, request.version());
  response.keep_alive(request.keep_alive());
  response.set(http::field::content_type, "text/plain; charset=utf-8");
  return response;
}

void finish_answer(const Request& request, Response& response) {
  response.set(http::field::vary, "Accept-Encoding");
  const auto accepted = request[http::field::accept_encoding];
  if (response.body().size() >= worth_compressing && accepts_gzip({accepted.data(), accepted.size()})) {
    response.body() = gzip(response.body());
    response.set(http::field::content_encoding, "gzip");
  }
  response.prepare_payload();
  if (request.method() == http::verb::head) response.body().clear();
}

void refuse_without_token(Response& response) {
  response.set(http::field::www_authenticate, "Bearer");
  put(response, api_error(401, "no_token",
                          "this listener needs its token: send \"Authorization: Bearer TOKEN\"; the commands of weir "
                          "take it by --token-file FILE, or from WEIR_ADMIN_TOKEN in the environment"));
}

void read(Response& response, const Asked& asked, const fleet::Snapshot& snapshot, const AdminSources& weir) {
  if (asked.path == "/metrics") {
    response.set(http::field::content_type, "text/plain; version=0.0.4; charset=utf-8");
    response.body() = weir.exposition.text();
  } else if (asked.path == "/-/healthy") {
    response.body() = "healthy\n";
  } else if (asked.path == "/-/ready") {
    const auto why_not = weir.why_not_ready();
    if (!why_not.empty()) response.result(http::status::service_unavailable);
    response.body() = why_not.empty() ? "ready\n" : "not ready: " + why_not + "\n";
  } else if (asked.may_list && asked.path == replicas_path) {
    const auto now = std::chrono::steady_clock::now();
    put(response, replicas_answer(snapshot, Medians(weir.history, now), now, weir.bypass.load(), weir.standing()));
  } else if (asked.may_list && asked.path == settings_path) {
    put(response, settings_answer(weir.reload.settings()));
  } else if (asked.is_change()) {
    refuse_method(response, "POST");
  } else {
    response.result(http::status::not_found);
    response.body() =
        asked.may_list
            ? "known here: /metrics /-/healthy /-/ready /api/replicas /api/settings /api/compare, and by POST "
              "/-/reload /api/replicas/NAME/drain /api/replicas/NAME/undrain /api/shadow/NAME/on "
              "/api/shadow/NAME/off /api/bypass/on /api/bypass/off\n"
            : "known here: /metrics /-/healthy /-/ready\n";
  }
}

net::Awaitable<Response> answer(const Request& request, AdminScope scope, AdminSources& weir) {
  auto response = begin_answer(request);
  const Asked asked(request, scope);
  const std::string by = "POST /-/reload";
  const auto snapshot = weir.fleet.snapshot();
  const Doors doors(asked, snapshot->settings.admin);
  if (doors.lacks_token()) {
    refuse_without_token(response);
  } else if (const auto strange = doors.why_not_read(); asked.reads_api() && !strange.empty()) {
    put(response, api_error(403, "strange_host", strange));
  } else if (asked.reads && asked.may_list && asked.path == compare_path) {
    if (weir.slow_answers.is_full()) {
      put(response, api_error(503, "busy", "other comparisons are being made; ask again in some seconds"));
    } else {
      auto make = comparison(asked.query, weir.history, *snapshot);
      const auto made = co_await weir.slow_answers.make(make, net::use_awaitable);
      put(response, *made);
    }
  } else if (asked.reads) {
    read(response, asked, *snapshot, weir);
  } else if (!asked.is_change() || request.method() != http::verb::post) {
    refuse_method(response, asked.is_change() ? "POST" : "GET, HEAD");
  } else if (const auto why_not = doors.why_no_change(); !why_not.empty()) {
    put(response, api_error(403, "not_allowed", why_not));
  } else if (asked.path == reload_path) {
    const auto result = co_await weir.reload.run(by, net::use_awaitable);
    put(response, reload_answer(*result));
  } else if (is_bypass_path(asked.path)) {
    put(response, bypass_answer(weir.bypass, asked.path));
  } else if (is_shadow_path(asked.path)) {
    put(response, shadow_answer(*snapshot, asked.path, weir.history, std::chrono::system_clock::now()));
  } else {
    put(response, drain_answer(weir.fleet, asked.path, request.body(), std::chrono::steady_clock::now()));
  }
  finish_answer(request, response);
  co_return response;
}

/// Waits for the first byte of a connection's next request.
net::Awaitable<void> await_next(Stream& stream, boost::beast::flat_buffer& buffer, boost::system::error_code& error) {
  auto token = asio::redirect_error(net::use_awaitable, error);
  const auto room = buffer.prepare(512);
  stream.expires_after(idle_time);
  const auto length = co_await stream.async_read_some(room, token);
  buffer.commit(length);
}

net::Awaitable<void> run(Stream stream, AdminScope scope, AdminSources& weir) {
  OperatorPlaces::Place place(weir.places_of(scope), [&stream] { stream.close(); });
  boost::beast::flat_buffer buffer;
  for (bool more = true, first = true; more; first = false) {
    boost::system::error_code error;
    auto token = asio::redirect_error(net::use_awaitable, error);
    Request request;
    place.begin(OperatorPlaces::Does::wait);
    if (!first && buffer.size() == 0) {
      co_await await_next(stream, buffer, error);
      if (error) break;
    }
    stream.expires_after(request_time);
    co_await http::async_read(stream, buffer, request, token);
    if (error) break;
    place.begin(OperatorPlaces::Does::answer);
    auto response = co_await answer(request, scope, weir);
    // A client that sends requests ahead of their answers would keep this thread busy, and all operators wait for it.
    if (buffer.size() > 0) response.keep_alive(false);
    place.begin(OperatorPlaces::Does::take);
    stream.expires_after(answer_time);
    co_await http::async_write(stream, response, token);
    more = !error && response.keep_alive();
  }
  boost::system::error_code ignored;
  stream.socket().shutdown(asio::socket_base::shutdown_send, ignored);
}

void warn_of_many(AdminSources& weir, AdminScope scope, bool one_went) {
  const auto now = std::chrono::steady_clock::now();
  if (now < weir.warned) return;
  weir.warned = now + std::chrono::minutes(1);
  spdlog::warn("{} connections to the {} listener are open: {} (said at most once a minute)", most_operators,
               scope == AdminScope::admin ? "admin" : "metrics",
               one_went ? "the one that has waited longest goes for each that comes"
                        : "no more are taken until an answer is done");
}

}  // namespace

void start_admin_session(asio::io_context& context, net::UniqueFd client, AdminScope scope, AdminSources& weir) {
  const auto room = weir.places_of(scope)->make_room();
  if (!room.is_there || room.one_went) warn_of_many(weir, scope, room.one_went);
  if (!room.is_there) return;
  asio::basic_stream_socket<Protocol, asio::io_context::executor_type> socket(context.get_executor());
  boost::system::error_code error;
  socket.assign(Protocol(AF_UNSPEC, 0), client.get(), error);  // Asio asks for no more than that it is a stream.
  if (error) return;
  client.release();
  asio::co_spawn(context, run(Stream(std::move(socket)), scope, weir),
                 fleet::Unawaited(weir.fleet.internal_errors(), metrics::series::Part::operators,
                                  "the operator's connection is closed"));
}

}  // namespace weir::proxy::control
