#include "proxy/control/admin.hpp"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http.hpp>
#include <boost/json/serialize.hpp>
#include <boost/json/value.hpp>

#include "proxy/control/gzip.hpp"
#include "proxy/net/awaitable.hpp"

namespace weir::proxy::control {
namespace {

namespace asio = boost::asio;
namespace http = boost::beast::http;
using Stream = boost::beast::basic_stream<asio::ip::tcp, asio::io_context::executor_type>;
using Request = http::request<http::string_body>;
using Response = http::response<http::string_body>;

constexpr std::chrono::seconds time_limit{30};
constexpr std::size_t worth_compressing = 1024;

/// What the engine tells; null where it is unknown or stale.
boost::json::object engine_object(const fleet::ReplicaRuntime& replica, metrics::Moment now) {
  const auto figures = replica.state->engine.get();
  const auto known = [](const auto& value) { return value ? boost::json::value(*value) : boost::json::value(); };
  const auto text = [](const std::string& value) {
    return value.empty() ? boost::json::value() : boost::json::value(value);
  };
  boost::json::object object;
  object["name"] = figures.engine == fleet::Engine::unknown ? boost::json::value()
                                                            : boost::json::value(fleet::name_of(figures.engine));
  object["version"] = text(figures.version);
  object["model"] = text(figures.model);
  object["kv_tokens"] = known(figures.kv_tokens);
  object["max_context"] = known(figures.max_context);
  const auto* const load = figures.load_at(now);
  const auto told = [load](std::optional<double> fleet::EngineLoad::*figure) {
    const bool is_known = load != nullptr && (load->*figure).has_value();
    return is_known ? boost::json::value(*(load->*figure)) : boost::json::value();
  };
  object["running"] = told(&fleet::EngineLoad::running);
  object["waiting"] = told(&fleet::EngineLoad::waiting);
  object["kv_usage"] = told(&fleet::EngineLoad::kv_usage);
  object["prefix_cache_queries"] = told(&fleet::EngineLoad::prefix_queries);
  object["prefix_cache_hits"] = told(&fleet::EngineLoad::prefix_hits);
  object["divergence"] = told(&fleet::EngineLoad::divergence);
  return object;
}

boost::json::object replica_object(const fleet::ReplicaRuntime& replica, const fleet::PoolRuntime& pool) {
  const auto now = std::chrono::steady_clock::now();
  const auto load = pool.balancer->load(replica.key.index, now);
  const auto health = pool.balancer->health(replica.key, now);
  boost::json::object object;
  object["pool"] = replica.pool;
  object["name"] = replica.settings.name;
  object["config"] = replica.settings.config;
  object["url"] = "http://" + replica.settings.url.authority + replica.settings.url.prefix;
  object["state"] = metrics::name_of(health.state);
  object["state_seconds"] = std::chrono::duration<double>(now - health.since).count();
  object["reason"] = health.reason;
  object["in_flight"] = load.in_flight;
  object["queued_prefill_tokens"] = load.prefill_left;
  object["queued_decode_tokens"] = load.decode_left;
  object["resident_tokens"] = load.resident;
  object["oldest_unanswered_seconds"] = load.oldest_unanswered_seconds;
  object["speed"] = load.speed;
  object["engine"] = engine_object(replica, now);
  object["injection_disabled"] = replica.state->injection_disabled.load(std::memory_order_relaxed);
  return object;
}

std::string replicas_json(const fleet::World& world) {
  boost::json::array replicas;
  for (const auto& pool : world.pools)
    for (const auto& replica : pool->replicas) replicas.push_back(replica_object(*replica, *pool));
  boost::json::object outer;
  outer["replicas"] = std::move(replicas);
  return boost::json::serialize(outer) + "\n";
}

Response answer(const Request& request, AdminScope scope, const AdminSources& weir) {
  Response response(http::status::ok, request.version());
  response.keep_alive(request.keep_alive());
  response.set(http::field::content_type, "text/plain; charset=utf-8");
  const std::string_view target(request.target().data(), request.target().size());
  const auto path = target.substr(0, target.find('?'));
  if (request.method() != http::verb::get && request.method() != http::verb::head) {
    response.result(http::status::method_not_allowed);
    response.set(http::field::allow, "GET, HEAD");
    response.body() = "only GET is answered here\n";
  } else if (path == "/metrics") {
    response.set(http::field::content_type, "text/plain; version=0.0.4; charset=utf-8");
    response.body() = weir.exposition.text();
  } else if (path == "/-/healthy") {
    response.body() = "healthy\n";
  } else if (path == "/-/ready") {
    const auto why_not = weir.why_not_ready();
    if (!why_not.empty()) response.result(http::status::service_unavailable);
    response.body() = why_not.empty() ? "ready\n" : "not ready: " + why_not + "\n";
  } else if (path == "/api/replicas" && scope == AdminScope::admin) {
    response.set(http::field::content_type, "application/json");
    response.body() = replicas_json(*weir.fleet.world());
  } else {
    response.result(http::status::not_found);
    response.body() = scope == AdminScope::admin ? "known here: /metrics /-/healthy /-/ready /api/replicas\n"
                                                 : "known here: /metrics /-/healthy /-/ready\n";
  }
  response.set(http::field::vary, "Accept-Encoding");
  const auto accepted = request[http::field::accept_encoding];
  if (response.body().size() >= worth_compressing && accepts_gzip({accepted.data(), accepted.size()})) {
    response.body() = gzip(response.body());
    response.set(http::field::content_encoding, "gzip");
  }
  response.prepare_payload();
  if (request.method() == http::verb::head) response.body().clear();
  return response;
}

net::Awaitable<void> run(Stream stream, AdminScope scope, const AdminSources& weir) {
  boost::beast::flat_buffer buffer;
  for (bool more = true; more;) {
    boost::system::error_code error;
    auto token = asio::redirect_error(net::use_awaitable, error);
    Request request;
    stream.expires_after(time_limit);
    co_await http::async_read(stream, buffer, request, token);
    if (error) break;
    const auto response = answer(request, scope, weir);
    stream.expires_after(time_limit);
    co_await http::async_write(stream, response, token);
    more = !error && response.keep_alive();
  }
  boost::system::error_code ignored;
  stream.socket().shutdown(asio::socket_base::shutdown_send, ignored);
}

}  // namespace

void start_admin_session(asio::io_context& context, net::UniqueFd client, bool ipv6, AdminScope scope,
                         const AdminSources& weir) {
  asio::basic_stream_socket<asio::ip::tcp, asio::io_context::executor_type> socket(context.get_executor());
  boost::system::error_code error;
  socket.assign(ipv6 ? asio::ip::tcp::v6() : asio::ip::tcp::v4(), client.get(), error);
  if (error) return;
  client.release();
  asio::co_spawn(context, run(Stream(std::move(socket)), scope, weir), asio::detached);
}

}  // namespace weir::proxy::control
