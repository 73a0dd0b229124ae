#include "tests/integration/peers/http_client.hpp"

#include <array>

namespace weir::integration {

Response HttpClient::response_head(std::string_view method) {
  auto head = reader_.head();
  if (!head) throw PeerGone("the connection was closed without an answer");
  Response response;
  response.status = head->status();
  response.version = head->start_line.substr(0, 8);
  const bool bodiless = method == "HEAD" || response.status < 200 || response.status == 204 || response.status == 304;
  if (bodiless)
    reader_.no_body();
  else
    reader_.body_by_fields(*head, true);
  response.head = std::move(*head);
  response.end = reader_.end();
  return response;
}

Response HttpClient::response(std::string_view method) {
  auto response = response_head(method);
  rest(response);
  return response;
}

Response HttpClient::exchange(std::string_view bytes, std::string_view method) {
  try {
    send(bytes);
  } catch (const PeerGone&) {
    // An answer that the server sent before it hung up is still in our buffer.
  }
  return response(method);
}

bool HttpClient::read_more(Response& response) {
  const bool more = reader_.more(response.body);
  response.end = reader_.end();
  return more;
}

void HttpClient::read_until(Response& response, std::string_view text) {
  while (response.body.find(text) == response.body.npos)
    if (!read_more(response))
      throw PeerGone("the body ended before '" + std::string(text) + "': '" + response.body + "'");
}

void HttpClient::rest(Response& response) {
  while (read_more(response)) {
  }
}

bool HttpClient::closed_by_server() {
  if (!reader_.left_over().empty()) return false;
  std::array<char, 1> byte;
  try {
    return socket_.receive(byte.data(), byte.size()) == 0;
  } catch (const PeerGone&) {
    return true;
  }
}

Response fetch(std::uint16_t port, std::string_view bytes, std::string_view method) {
  HttpClient client(port);
  return client.exchange(bytes, method);
}

}  // namespace weir::integration
