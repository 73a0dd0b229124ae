#include "lab/load/http_get.hpp"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/connect.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/use_future.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http.hpp>
#include <future>
#include <stdexcept>

#include "lab/json_fields.hpp"
#include "lab/load/target.hpp"
#include "lab/net/client_tls.hpp"

namespace weir::lab::load {
namespace {

namespace asio = boost::asio;
namespace http = boost::beast::http;
using asio::ip::tcp;

using Answer = http::response_parser<http::string_body>;

template <class Stream>
asio::awaitable<void> ask(const Target& target, Stream& stream, Answer& answer) {
  http::request<http::empty_body> request(http::verb::get, target.prefix, 11);
  request.set(http::field::host, target.authority);
  request.set(http::field::connection, "close");
  co_await http::async_write(stream, request, asio::use_awaitable);
  boost::beast::flat_buffer buffer;
  co_await http::async_read(stream, buffer, answer, asio::use_awaitable);
}

/// Looks the name up, connects, sends and reads. The first error ends it; `why` has the words for one in a handshake.
asio::awaitable<void> get(const Target& target, asio::ssl::context* tls, Answer& answer, std::string& why) {
  tcp::resolver resolver(co_await asio::this_coro::executor);
  tcp::socket socket(resolver.get_executor());
  const auto found = co_await resolver.async_resolve(target.host, target.port, asio::use_awaitable);
  co_await asio::async_connect(socket, found, asio::use_awaitable);
  if (!tls) co_return co_await ask(target, socket, answer);
  asio::ssl::stream<tcp::socket&> stream(socket, *tls);
  net::expect_host(stream.native_handle(), target.host);
  try {
    co_await stream.async_handshake(asio::ssl::stream_base::client, asio::use_awaitable);
  } catch (const boost::system::system_error& failed) {
    why = net::handshake_problem(stream.native_handle(), failed.code());
    throw;
  }
  co_await ask(target, stream, answer);
}

}  // namespace

std::string http_get(const std::string& url, std::chrono::seconds timeout, const std::string& ca) {
  Target target = target_of(url);
  const auto tls = target.tls ? net::client_context(ca) : nullptr;
  std::string why;
  if (target.prefix.empty()) target.prefix = "/";
  Answer answer;
  answer.body_limit(64 * 1024 * 1024);
  asio::io_context io{1};
  auto done = asio::co_spawn(io, get(target, tls.get(), answer, why), asio::use_future);
  io.run_for(timeout);
  if (done.wait_for(std::chrono::seconds(0)) != std::future_status::ready) {
    throw std::runtime_error(url + " did not answer within " + std::to_string(timeout.count()) + " s");
  }
  try {
    done.get();
  } catch (const boost::system::system_error& failed) {
    throw std::runtime_error("cannot read " + url + ": " + (why.empty() ? failed.code().message() : why));
  }
  const unsigned status = answer.get().result_int();
  if (status != 200) throw std::runtime_error(url + " answered with status " + std::to_string(status));
  return std::move(answer.get().body());
}

std::vector<std::string> model_ids(const std::string& body) {
  std::vector<std::string> ids;
  const auto document = object_of(body);
  const auto data = document ? field<JsonArray>(*document, "data") : std::nullopt;
  if (!data) return ids;
  for (const JsonValue model : *data) {
    JsonObject object;
    if (model.get(object) != simdjson::SUCCESS) continue;
    if (const auto id = text_at(object, "id"); !id.empty()) ids.emplace_back(id);
  }
  return ids;
}

}  // namespace weir::lab::load
