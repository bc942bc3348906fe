"""Plugins: folders with a manifest, or installed packages, that bring tools, connectors and dialects."""

from .api import PluginApi, PluginDefinition, PluginFactory, Registration
from .loading import LoadedPlugin, PluginLoaderOptions, PluginProblem, Plugins, aload_plugins, load_plugins
from .manifest import (
    ExtensionInfo,
    Manifest,
    discover_extensions,
    get_extension_path,
    list_channel_extensions,
    list_provider_extensions,
    read_manifest,
)

__all__ = [
    "ExtensionInfo",
    "LoadedPlugin",
    "Manifest",
    "PluginApi",
    "PluginDefinition",
    "PluginFactory",
    "PluginLoaderOptions",
    "PluginProblem",
    "Plugins",
    "Registration",
    "aload_plugins",
    "discover_extensions",
    "get_extension_path",
    "list_channel_extensions",
    "list_provider_extensions",
    "load_plugins",
    "read_manifest",
]
