#include "proxy/control/client.hpp"

#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http.hpp>
#include <boost/json.hpp>
#include <chrono>
#include <stdexcept>

#include "config/address.hpp"

namespace weir::proxy::control {
namespace {

namespace asio = boost::asio;
namespace http = boost::beast::http;

constexpr std::chrono::seconds patience{30};

[[noreturn]] void fail(const config::ListenAddress& admin, const std::string& why) {
  throw std::runtime_error("no weir answers at " + config::to_text(admin) + ": " + why +
                           "; --admin names the address of its [admin] listener");
}

}  // namespace

config::ListenAddress admin_address(const std::string& text) {
  std::string_view address = text;
  if (address.starts_with("http://")) address.remove_prefix(7);
  while (address.ends_with('/')) address.remove_suffix(1);
  auto parsed = config::parse_address(address);
  if (const auto* found = std::get_if<config::ListenAddress>(&parsed)) return *found;
  throw std::runtime_error("\"" + text + "\" is no address of a weir: write it as \"127.0.0.1:9091\"");
}

Answered ask_admin(const config::ListenAddress& admin, const std::string& method, const std::string& path,
                   const std::string& body) {
  asio::io_context context;
  boost::beast::tcp_stream stream(context);
  http::request<http::string_body> request(http::string_to_verb(method), path, 11);
  request.set(http::field::host, config::to_text(admin));
  request.set(http::field::content_type, "application/json");
  request.keep_alive(false);
  request.body() = body;
  request.prepare_payload();
  http::response<http::string_body> response;
  boost::beast::flat_buffer buffer;
  boost::system::error_code failed;
  stream.expires_after(patience);
  stream.async_connect({asio::ip::make_address(admin.host), admin.port}, [&](boost::system::error_code error) {
    if (failed = error; error) return;
    http::async_write(stream, request, [&](boost::system::error_code unwritten, std::size_t) {
      if (failed = unwritten; unwritten) return;
      http::async_read(stream, buffer, response,
                       [&](boost::system::error_code unread, std::size_t) { failed = unread; });
    });
  });
  context.run();
  if (failed) fail(admin, failed == boost::beast::error::timeout ? "it took longer than 30 s" : failed.message());
  return {response.result_int(), response.body()};
}

std::string error_message(const Answered& answered) {
  boost::json::error_code error;
  const auto parsed = boost::json::parse(answered.body, error);
  const auto* object = error ? nullptr : parsed.if_object();
  const auto* told = object ? object->if_contains("error") : nullptr;
  const auto* message = told && told->is_object() ? told->get_object().if_contains("message") : nullptr;
  if (message && message->is_string()) return std::string(message->get_string());
  return "weir answered with status " + std::to_string(answered.status);
}

}  // namespace weir::proxy::control
