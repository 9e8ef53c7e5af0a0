"""A gRPC client that knows nothing of Kelson: it learns the interface from the server by reflection.

client.py SOCKET
client.py HOST:PORT CA CERTIFICATE KEY
prints {"health": …}, {"services": […]} and then each event as a line of JSON, until it is ended.
"""
import json
import pathlib
import sys

import grpc
from google.protobuf import descriptor_pool, json_format, message_factory
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import ProtoReflectionDescriptorDatabase


def caller(channel, pool, service, name):
    method = pool.FindServiceByName(service).FindMethodByName(name)
    make = channel.unary_stream if method.server_streaming else channel.unary_unary
    request = message_factory.GetMessageClass(method.input_type)
    answer = message_factory.GetMessageClass(method.output_type)
    call = make(
        f"/{service}/{name}",
        request_serializer=lambda message: message.SerializeToString(),
        response_deserializer=answer.FromString,
    )
    return lambda **fields: call(request(**fields))


def put(value):
    print(json.dumps(value), flush=True)


def connect(where, *files):
    if files:
        ca, certificate, key = (pathlib.Path(file).read_bytes() for file in files)
        return grpc.secure_channel(where, grpc.ssl_channel_credentials(ca, key, certificate))
    # Of a Unix socket, grpcio makes an :authority that HTTP/2 does not allow ("%2Ftmp…"), and servers refuse it.
    return grpc.insecure_channel(f"unix:{where}", options=[("grpc.default_authority", "localhost")])


def main():
    channel = connect(*sys.argv[1:])
    reflection = ProtoReflectionDescriptorDatabase(channel)
    pool = descriptor_pool.DescriptorPool(reflection)

    health = caller(channel, pool, "grpc.health.v1.Health", "Check")
    put({"health": json_format.MessageToDict(health(service="service/web"))["status"]})
    listing = caller(channel, pool, "kelson.v1.Services", "List")
    put({"services": [service.name for service in listing().services]})
    events = caller(channel, pool, "kelson.v1.Services", "Events")
    for batch in events(follow=True):
        for event in batch.events:
            put(json_format.MessageToDict(event))


if __name__ == "__main__":
    main()
