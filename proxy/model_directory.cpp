#include "proxy/model_directory.hpp"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http.hpp>
#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <map>
#include <set>

#include "proxy/exchange.hpp"

namespace weir::proxy {
namespace {

namespace asio = boost::asio;
namespace http = boost::beast::http;
using Stream = boost::beast::basic_stream<asio::ip::tcp, asio::io_context::executor_type>;
using Models = std::set<std::string>;

constexpr std::chrono::seconds ask_every{5};
constexpr std::chrono::seconds time_limit{2};
constexpr std::size_t longest_list = 1024 * 1024;

/// The ids of an OpenAI model list; nothing where it is not one.
Models ids_of(const std::string& body) {
  Models ids;
  boost::system::error_code error;
  const auto document = boost::json::parse(body, error);
  const auto* list = error || !document.is_object() ? nullptr : document.as_object().if_contains("data");
  if (list == nullptr || !list->is_array()) return ids;
  for (const auto& entry : list->as_array()) {
    const auto* id = entry.is_object() ? entry.as_object().if_contains("id") : nullptr;
    if (id != nullptr && id->is_string()) ids.emplace(id->as_string());
  }
  return ids;
}

Awaitable<Models> ask(const ReplicaRuntime& replica) {
  const auto endpoint = replica.address.get();
  if (!endpoint) co_return Models();
  const auto executor = co_await asio::this_coro::executor;
  boost::system::error_code error;
  auto token = asio::redirect_error(use_awaitable, error);
  Stream stream(executor);
  stream.expires_after(time_limit);
  co_await stream.async_connect(*endpoint, token);
  if (error) co_return Models();
  http::request<http::empty_body> request(http::verb::get, replica.settings.url.prefix + "/v1/models", 11);
  request.set(http::field::host, replica.settings.url.authority);
  request.set(http::field::connection, "close");
  co_await http::async_write(stream, request, token);
  if (error) co_return Models();
  boost::beast::flat_buffer buffer;
  http::response_parser<http::string_body> parser;
  parser.body_limit(longest_list);
  co_await http::async_read(stream, buffer, parser, token);
  if (error || parser.get().result() != http::status::ok) co_return Models();
  co_return ids_of(parser.get().body());
}

void publish(Shared& shared, const std::map<const ReplicaRuntime*, Models>& answered) {
  Models all;
  for (const auto& pool : shared.fleet.pools()) all.insert(pool->settings.models.begin(), pool->settings.models.end());
  for (const auto& [replica, models] : answered) all.insert(models.begin(), models.end());
  boost::json::array list;
  for (const auto& id : all) {
    boost::json::object entry;
    entry["id"] = id;
    entry["object"] = "model";
    entry["owned_by"] = "weir";
    list.push_back(std::move(entry));
  }
  boost::json::object outer;
  outer["object"] = "list";
  outer["data"] = std::move(list);
  shared.models.set(boost::json::serialize(outer) + "\n");
}

Awaitable<void> keep_asking(Shared& shared) {
  std::map<const ReplicaRuntime*, Models> answered;
  const auto executor = co_await asio::this_coro::executor;
  asio::basic_waitable_timer<std::chrono::steady_clock, asio::wait_traits<std::chrono::steady_clock>,
                             asio::io_context::executor_type>
      timer(executor);
  for (;;) {
    for (const auto& pool : shared.fleet.pools()) {
      if (!pool->settings.models.empty()) continue;
      for (const auto& replica : pool->replicas) {
        auto models = co_await ask(*replica);
        // A replica that does not answer now keeps what it said before: it is the same model when it is back.
        if (!models.empty()) answered[replica.get()] = std::move(models);
      }
    }
    publish(shared, answered);
    timer.expires_after(ask_every);
    co_await timer.async_wait(use_awaitable);
  }
}

}  // namespace

void start_model_directory(asio::io_context& context, Shared& shared) {
  publish(shared, {});
  const auto& pools = shared.fleet.pools();
  if (std::all_of(pools.begin(), pools.end(), [](const auto& pool) { return !pool->settings.models.empty(); })) return;
  asio::co_spawn(context, keep_asking(shared), asio::detached);
}

}  // namespace weir::proxy
